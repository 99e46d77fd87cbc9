"""Sudoku through its real server: moves, hints, limits, policies and terms."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.envs.sending import fields_sent
from tests.envs.textarena_play import games, play, playing
from tests.loopback import LiveServer, serving
from trl_envs.envs.episode import Episode, Event
from trl_envs.envs.game import end_episode
from trl_envs.envs.sudoku import SudokuEnv
from trl_envs.envs.sudoku.grid import Grid
from trl_envs.envs.sudoku.hints import easy, hard, medium
from trl_envs.envs.sudoku.policies import random_policy, solve, solver
from trl_envs.envs.sudoku.rewards import empty_cell, progress, repetition, solved, valid_move
from trl_envs.errors import ConfigError
from trl_envs.rollout.session import SessionOpener


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with playing("Sudoku-v0", sessions=8) as live:
        yield live


@pytest.fixture
def environment(server: LiveServer) -> Iterator[SudokuEnv]:
    player = SudokuEnv(SessionOpener([server.url]))
    yield player
    end_episode(player)


def start(environment: SudokuEnv, seed: int = 3) -> tuple[Grid, Grid]:
    """The grid of a new game, and its solution."""
    environment.reset(seed=seed)
    grid = Grid.parse(environment.episode.facts["board"])
    solution = solve(grid)
    assert solution is not None
    return grid, solution


def wrong(solution: Grid, row: int, column: int) -> int:
    return solution.at(row, column) % 9 + 1


def test_the_solver_solves_every_board_and_chance_none(environment: SudokuEnv) -> None:
    rng = random.Random(0)
    for policy, expected in ((solver, 1.0), (random_policy, 0.0)):
        for seed in range(12):
            play(environment, policy, seed, rng)
            episode = environment.episode
            assert episode.done
            assert episode.facts["solved"] is (expected == 1.0)
            if expected == 1.0:
                scores = solved(episode), progress(episode), empty_cell(episode), valid_move(episode)
                assert scores == (1.0, 1.0, 1.0, 1.0)
                assert repetition(episode) == 0.0
                assert episode.facts["moves"] == episode.facts["empty"] == 81 - episode.facts["clues"]


def test_harder_boards_have_fewer_clues_and_the_solver_solves_them() -> None:
    with playing("Sudoku-v0-medium", clues=45) as server:
        environment = SudokuEnv(SessionOpener([server.url]), difficulty="hard")
        play(environment, solver, 1, random.Random(0))
        assert environment.episode.facts["solved"]
        assert 45 <= environment.episode.facts["clues"] < 60


def test_a_game_in_words(environment: SudokuEnv) -> None:
    text = environment.reset(seed=3)
    grid, solution = start(environment)
    assert text.startswith("Progress: 0 cells filled, 21 cells empty.\nBoard:\n")
    assert grid.show() in text
    assert "Only one candidate: (" in text
    row, column = grid.empty[0]
    number = solution.at(row, column)
    said = environment.place(row=row, column=column, number=number)
    assert said.startswith(
        f"Placed {number} at row {row}, column {column}.\nProgress: 1 cells filled, 20 cells empty.\n"
    )
    assert "Moves already tried" not in said
    said = environment.place(row=row, column=column, number=number)
    assert said.startswith(f"Invalid move: row {row}, column {column} is already filled. A second one in a row ends")
    assert said.endswith(f"Moves already tried: {row} {column} {number}")
    facts = environment.episode.facts
    assert (facts["moves"], facts["on_empty"], facts["accepted"], facts["warned"], facts["repeats"]) == (
        2,
        1,
        1,
        1,
        [1],
    )
    assert facts["board"] == grid.placed(row, column, number).line


def test_a_second_invalid_move_in_a_row_ends_the_game_and_is_told(environment: SudokuEnv) -> None:
    grid, solution = start(environment)
    first, second, third = grid.empty[:3]
    for cell in (first, third):
        environment.place(*cell, number=wrong(solution, *cell))
        assert not environment.episode.done
        environment.place(*cell, number=solution.at(*cell))
    environment.place(*second, number=wrong(solution, *second))
    said = environment.place(*second, number=wrong(solution, *second))
    row, column = second
    assert said == (
        f"Invalid move: {wrong(solution, row, column)} at row {row}, column {column} is wrong. "
        "That was the second in a row. Game over.\nProgress: 2 cells filled, 19 cells empty."
    )
    episode = environment.episode
    assert (episode.done, episode.facts["ended_by_invalid"], episode.facts["solved"]) == (True, True, False)
    # The server's reward for a game that it ended is the filled share.
    assert solved(episode) == pytest.approx(2 / 21)
    assert progress(episode) == pytest.approx(2 / 21)
    # Six moves to empty cells: two right, three warned, and the one that ended it.
    assert empty_cell(episode) == 1.0
    assert valid_move(episode) == pytest.approx((2 - 3 * 0.5) / 6)
    assert repetition(episode) == pytest.approx(-1 / 6)
    with pytest.raises(ValueError, match="Game over"):
        environment.place(1, 1, 1)


@pytest.mark.parametrize("move", [(0, 1, 1), (10, 1, 1), (1, -1, 1), (1, 1, 0), (1, 1, 10), (1, 1, 10**30)])
def test_numbers_outside_of_the_grid_are_told_and_counted_and_never_sent(
    environment: SudokuEnv, move: tuple[int, int, int]
) -> None:
    start(environment)
    for _ in range(3):
        with pytest.raises(ValueError, match="row, column and number must be from 1 to 9"):
            environment.place(*move)
    episode = environment.episode
    assert (episode.done, episode.lost, episode.facts["warned"], episode.facts["repeats"]) == (False, None, 3, [1, 2])
    assert (empty_cell(episode), valid_move(episode), repetition(episode)) == (-1.0, -0.5, -1.0)
    assert environment._session is not None
    assert environment._session._client.state()["step_count"] == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"row": "1", "column": 2, "number": 3}, "row must be an integer."),
        ({"row": 1, "column": 2.0, "number": 3}, "column must be an integer."),
        ({"row": 1, "column": 2, "number": True}, "number must be an integer."),
        ({"row": None, "column": 2, "number": 3}, "row must be an integer."),
        ({"row": 1, "column": 2}, "place takes row, column, number"),
        ({"row": 1, "col": 2, "number": 3}, "place takes row, column, number"),
    ],
)
def test_arguments_of_other_kinds_are_told(environment: SudokuEnv, arguments: dict[str, Any], said: str) -> None:
    start(environment)
    with pytest.raises(ValueError, match=said):
        environment.place(**arguments)
    assert environment.episode.lost is None


def test_the_game_ends_at_max_turns_whatever_the_moves_were(server: LiveServer) -> None:
    environment = SudokuEnv(SessionOpener([server.url]), max_turns=2)
    grid, solution = start(environment)
    cell = grid.empty[0]
    environment.place(*cell, number=solution.at(*cell))
    cell = grid.empty[1]
    said = environment.place(*cell, number=solution.at(*cell))
    assert said.endswith("Game over.\nProgress: 2 cells filled, 19 cells empty.")
    assert environment.episode.done and environment.episode.events[-1].done
    assert (solved(environment.episode), progress(environment.episode)) == (0.0, 2 / 21)
    start(environment)
    for text in ("from 1 to 9.$", "from 1 to 9. Game over.$", r"^Game over\.$"):
        with pytest.raises(ValueError, match=text):
            environment.place(0, 0, 0)


def test_the_servers_own_limit_of_turns_ends_the_game() -> None:
    with playing("Sudoku-v0", max_turns=1) as server:
        environment = SudokuEnv(SessionOpener([server.url]))
        grid, solution = start(environment)
        for cell in grid.empty[:2]:
            said = environment.place(*cell, number=solution.at(*cell))
    assert environment.episode.done
    assert said.splitlines()[0].endswith("Game over.")
    assert not environment.episode.facts["ended_by_invalid"]


def test_hints_are_those_of_the_difficulty() -> None:
    grid = Grid.read(games("Sudoku-v0").start(3).get_observation()[1])
    assert grid is not None
    certain, open_ = easy(grid).splitlines()
    assert certain.startswith("Only one candidate: (") and open_.startswith("Candidates: (")
    assert certain.count("(") == 5 and open_.count("(") == 5
    row, column = grid.empty[0]
    options = " or ".join(map(str, grid.candidates(row, column)))
    assert medium(grid).startswith(f"Candidates: ({row},{column}): {options}, ")
    assert medium(grid).count("(") == 10
    assert hard(grid) == ""
    full = solve(grid)
    assert full is not None
    assert (easy(full), medium(full)) == ("", "")


def test_a_grid_reads_what_textarena_draws() -> None:
    game = games("Sudoku-v0").start(5)
    grid = Grid.read(game.get_observation()[1])
    assert grid is not None
    assert list(grid.cells) == [cell for row in game.state.game_state["board"] for cell in row]
    assert Grid.parse(grid.line) == grid
    assert Grid.read("no grid") is None
    assert len(grid.show().splitlines()) == 11


def test_terms_of_an_episode_without_moves() -> None:
    episode = Episode(facts={"empty": 4, "filled": 0, "moves": 0})
    terms = (solved, progress, empty_cell, valid_move, repetition)
    assert [term(episode) for term in terms] == [0.0] * 5
    assert progress(Episode(facts={"empty": 0, "filled": 0})) == 1.0


def test_repetition_doubles_up_to_its_limit() -> None:
    episode = Episode(facts={"moves": 10, "repeats": [1, 2, 3, 4, 5, 2000]}, events=[Event("place", {})])
    assert repetition(episode) == pytest.approx(-(1 + 2 + 4 + 8 + 10 + 10) / 10)
    assert repetition(episode, most=3.0) == pytest.approx(-(1 + 2 + 3 + 3 + 3 + 3) / 10)


@pytest.mark.parametrize("settings", [{"difficulty": "brutal"}, {"max_turns": 0}, {"max_turns": "9"}])
def test_bad_settings_are_named(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings))):
        SudokuEnv(SessionOpener(["http://127.0.0.1:1"]), **settings)


def test_another_game_loses_the_episode() -> None:
    with serving("echo") as echo:
        environment = SudokuEnv(SessionOpener([echo.url]))
        environment.reset(seed=1)
    assert "not a textarena server" in str(environment.episode.lost)
    with playing("Wordle-v0") as wordle:
        environment = SudokuEnv(SessionOpener([wordle.url]))
        environment.reset(seed=1)
    assert "another game than Sudoku" in str(environment.episode.lost)


def test_the_fields_that_it_says_it_sends_are_those_it_sends(environment: SudokuEnv) -> None:
    with fields_sent() as sent:
        play(environment, random_policy, 3, random.Random(3))
    assert sent == set(SudokuEnv._protocols)
