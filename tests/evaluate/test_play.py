"""Playing by hand: what is typed, what is shown, and the whole child on a real server."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.evaluate.playing import catch_config
from tests.loopback import serving
from trl_envs.config.store import to_yaml
from trl_envs.envs.catch import CatchEnv
from trl_envs.envs.episode import Episode, Event
from trl_envs.envs.sudoku import SudokuEnv
from trl_envs.envs.sudoku.grid import Grid
from trl_envs.envs.wordle import WordleEnv
from trl_envs.evaluate.play import main
from trl_envs.evaluate.play_drawing import Picture
from trl_envs.evaluate.play_input import parse_move
from trl_envs.evaluate.tools import bound_tools
from trl_envs.plan.build import build_plan
from trl_envs.plan.facts import MachineFacts
from trl_envs.rehearse import bench_config
from trl_envs.results.rundir import RunDirectory

FACTS = MachineFacts(gpus=[], mps=False, vllm=None, free_port=lambda host: 1, variables=dict(os.environ))


def no_session() -> Any:
    raise AssertionError("nothing is opened here")


CATCH, SUDOKU, WORDLE = (bound_tools(kind(no_session)) for kind in (CatchEnv, SudokuEnv, WordleEnv))


class Tools:
    def mixed(self, text: str, number: float = 1.0, flag: bool = False, items: list[int] | None = None) -> str:
        """Everything."""
        return ""


MIXED = {"mixed": Tools().mixed}


@pytest.mark.parametrize(
    ("tools", "line", "move"),
    [
        (CATCH, "move left", ("move", {"direction": "left"})),
        (CATCH, "  stay \n", ("stay", {})),
        (SUDOKU, "place 1 2 9", ("place", {"row": 1, "column": 2, "number": 9})),
        (SUDOKU, "1 number=9 2", ("place", {"row": 1, "number": 9, "column": 2})),
        (WORDLE, "crane", ("guess", {"guess": "crane"})),
        (WORDLE, "guess guess=crane", ("guess", {"guess": "crane"})),
        (WORDLE, "it's two words", ("guess", {"guess": "it's two words"})),
        (
            MIXED,
            "mixed 'a b' 2 flag=yes items=[1]",
            ("mixed", {"text": "a b", "number": 2.0, "flag": True, "items": [1]}),
        ),
        (MIXED, "mixed a items=null", ("mixed", {"text": "a", "items": None})),
    ],
)
def test_a_line_is_a_tool_call(tools: dict[str, Any], line: str, move: tuple[str, dict[str, Any]]) -> None:
    assert parse_move(line, tools) == move


@pytest.mark.parametrize(
    ("tools", "line", "said"),
    [
        (CATCH, "jump", "there is no tool 'jump'"),
        (CATCH, "move", "move needs direction"),
        (CATCH, "stay now", "'now' is one argument too many"),
        (SUDOKU, "1 2 nine", "number must be a whole number, and 'nine' isn't"),
        (SUDOKU, "place 1 2 3 cell=4", "place takes no cell"),
        (SUDOKU, "place 1 2 '9", "a quotation mark is missing"),
        (MIXED, "mixed a flag=perhaps", "flag must be true or false"),
        (MIXED, "mixed a items=[1", "items must be JSON"),
    ],
)
def test_what_is_no_call_is_said(tools: dict[str, Any], line: str, said: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        parse_move(line, tools)
    assert said in str(caught.value)


def test_wordle_can_be_read_with_and_without_colours() -> None:
    text = (
        "\n[GAME] [crane]\n[GAME] You submitted [crane].\nFeedback:\nC R A N E\nG X Y X X\n\nYou have 5 guesses left."
    )
    episode = Episode(events=[Event("guess", {"guess": "crane"}, text)])
    rest, drawing = Picture(WordleEnv(no_session), coloured=False).take(text, episode)
    assert drawing is not None and drawing.plain.startswith("[C] R (A) N  E ")
    assert rest == "You have 5 guesses left."
    _, drawing = Picture(WordleEnv(no_session), coloured=True).take(text, episode)
    assert drawing is not None and drawing.plain.split() == list("CRANE")
    assert "green" in str(drawing.spans[0].style)
    won = "\nCorrect, that is the secret word. Game over."
    episode.events.append(Event("guess", {"guess": "[cigar]"}, won, done=True))
    _, drawing = Picture(WordleEnv(no_session), coloured=False).take(won, episode)
    assert drawing is not None and drawing.plain == "[C][I][G][A][R]"


def test_sudokus_grid_is_drawn_in_place_of_its_text() -> None:
    grid = Grid.parse("12.456789" + 72 * ".")
    environment = SudokuEnv(no_session)
    episode = Episode(facts={"board": grid.line})
    text = f"Progress: 0 cells filled.\nBoard:\n{grid.show()}\nHints"
    picture = Picture(environment, coloured=False)
    rest, drawing = picture.take(text, episode)
    assert rest == "Progress: 0 cells filled.\n\nHints"
    assert drawing is not None and "  1 | 1 2 . | 4 5 6 | 7 8 9 |" in drawing.plain
    assert len(drawing.plain.splitlines()) == 1 + 9 + 4


def test_other_games_are_text() -> None:
    assert Picture(object(), coloured=True).take("hello", Episode()) == ("hello", None)
    assert Picture(CatchEnv(no_session), coloured=True).take("Game over.", Episode()) == ("Game over.", None)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving("catch", sessions=4) as server:
        run = RunDirectory.create(tmp_path_factory.mktemp("play"), "run")
        config = bench_config(catch_config(**{"envs.catch.url": server.url}), 1)
        run.write_config(to_yaml(config))
        run.write_plan(build_plan(config, FACTS, run.path, []).as_dict())
        yield str(run.path)


def test_a_solver_catches_the_ball_in_plain_text(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([run, "--env", "catch", "--seed", "3", "--policy", "solver"]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out and "You caught the ball." in out
    assert "rewards  caught 1.00 (+1.00)  weighted sum 1.00" in out
    assert out.rstrip().endswith("game over: won, 9 tool calls")
    assert "|..=..|" in out or "|.=...|" in out or "|...=.|" in out


@pytest.mark.parametrize(("typed", "code"), [("move left\nquit\n", 0), ("fly\nmove up\n", 130)])
def test_a_person_may_err_and_stop(
    run: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, typed: str, code: int
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    assert main([run, "--env", "catch", "--seed", "3"]) == code
    out = capsys.readouterr().out
    assert "move <direction>" in out and "Traceback" not in out
    if code:
        assert "there is no tool 'fly'" in out and 'direction must be "left" or "right".' in out
        assert "The input is at its end." in out
