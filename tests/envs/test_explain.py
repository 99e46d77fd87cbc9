"""The reasons that solvers give for their moves: about what is seen, and never more than a sentence or two."""

from __future__ import annotations

from trl_envs.agent.policies import find_explain
from trl_envs.envs import catch, echo, sudoku, wordle
from trl_envs.envs.catch.policies import explain as explain_catch
from trl_envs.envs.episode import Episode, Event
from trl_envs.envs.sudoku.policies import explain as explain_sudoku
from trl_envs.envs.wordle.policies import explain as explain_wordle


def test_games_with_a_solver_that_reasons_are_found_and_others_are_not() -> None:
    games = (catch.CatchEnv, wordle.WordleEnv, sudoku.SudokuEnv, echo.EchoEnv)
    assert [find_explain(game) is not None for game in games] == [True, True, True, False]


def test_catch_names_the_side_of_the_ball() -> None:
    seen = "Ball: column 1. Paddle: column 3. The ball is 2 columns to the left of the paddle. Moves left: 9."
    assert explain_catch(seen, Episode(), ("move", {"direction": "left"})) == "The ball is to the left, so I move left."
    above = "The ball is right above the paddle."
    assert explain_catch(above, Episode(), ("stay", {})) == "The ball is right above the paddle, so I stay."


def guessed(word: str, colours: str) -> Event:
    text = f"You submitted [{word}].\nFeedback:\n{' '.join(word.upper())}\n{' '.join(colours)}\n"
    return Event("guess", {"guess": f"[{word}]"}, result=text)


def test_wordle_sorts_the_letters_by_the_feedback() -> None:
    first = explain_wordle("", Episode(facts={"letters": 5}), ("guess", {"guess": "[share]"}))
    assert first == "Nothing is known yet, so I begin with common letters: share."
    events = [guessed("share", "XXGYG")]
    said = explain_wordle("", Episode(events=events), ("guess", {"guess": "[grade]"}))
    assert said == "In place: a at 3, e at 5; in the word: r; not in it: h, s. grade fits."
    events.append(guessed("grade", "GGGXG"))
    said = explain_wordle("", Episode(events=events), ("guess", {"guess": "[grape]"}))
    assert said == "In place: a at 3, e at 5, g at 1, r at 2; not in it: d, h, s. grape fits."


def test_sudoku_says_whether_the_cell_leaves_a_choice() -> None:
    for row, said in (
        ("12345678.", "Row 1, column 9 can only be 9."),
        ("1234567..", "Row 1, column 9 can be 8, 9; the rest of the grid asks for 9."),
    ):
        episode = Episode(facts={"board": row + "." * 72})
        assert explain_sudoku("", episode, ("place", {"row": 1, "column": 9, "number": 9})) == said
