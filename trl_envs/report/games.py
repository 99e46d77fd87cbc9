"""Recorded episodes as games: Wordle's rows, Sudoku's grid, Catch's board at each move.

What can be drawn is told by what was recorded, not by the environment's class, which a report doesn't import.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trl_envs.envs.catch.environment import COLUMNS, ROWS
from trl_envs.envs.catch.reading import read_places
from trl_envs.envs.episode import Event
from trl_envs.envs.sudoku.grid import SIZE, Grid
from trl_envs.envs.sudoku.reading import placed_number
from trl_envs.envs.wordle.reading import taken_guess

_GRID = re.compile(rf"[1-9.]{{{SIZE * SIZE}}}")
# More attempts than a page should show.
_MOST_LEFT = 10


@dataclass(frozen=True)
class Tiles:
    """A game of Wordle.

    Args:
        rows: Each guess: letters with their colours G, Y or X; of one that wasn't taken its text and no colours.
        left: Attempts that weren't used.
        letters: Of a word.
    """

    rows: list[list[tuple[str, str]]]
    left: int
    letters: int
    kind: str = "wordle"


@dataclass(frozen=True)
class SudokuBoard:
    """The grid as it stood at the end.

    Args:
        cells: Row by row: the digit, empty for an empty cell, and `clue`, `placed` or `empty`.
        refused: Moves that weren't accepted, in words.
    """

    cells: list[list[tuple[str, str]]]
    refused: list[str]
    kind: str = "sudoku"


@dataclass(frozen=True)
class Frames:
    """Catch's board after each move.

    Args:
        frames: Each: the ball's row and column and the paddle's column, from 0.
        rows: Of the board.
        columns: Of the board.
        caught: Whether the ball was caught.
    """

    frames: list[tuple[int, int, int]]
    rows: int
    columns: int
    caught: bool
    kind: str = "catch"


Drawing = Tiles | SudokuBoard | Frames


def draw_game(line: Mapping[str, Any]) -> Drawing | None:
    """The game of an episode; None for one that can't be drawn.

    Args:
        line: Of episodes.jsonl.
    """
    facts = line.get("facts") or {}
    events = [_event(event) for event in line.get("events") or [] if isinstance(event, dict)]
    if isinstance(facts.get("attempts"), int) and isinstance(facts.get("letters"), int):
        return _wordle(facts, events)
    if _GRID.fullmatch(str(facts.get("board", ""))):
        return _sudoku(facts["board"], events)
    if "caught" in facts:
        return _catch(bool(facts["caught"]), events)
    return None


def _event(event: Mapping[str, Any]) -> Event:
    result, arguments = event.get("result"), event.get("arguments")
    return Event(
        tool=str(event.get("tool", "")),
        arguments=arguments if isinstance(arguments, dict) else {},
        result=None if result is None else str(result),
        error=event.get("error"),
    )


def _wordle(facts: Mapping[str, Any], events: Sequence[Event]) -> Tiles:
    rows: list[list[tuple[str, str]]] = []
    taken = 0
    for event in events:
        guess = taken_guess(event)
        if guess is None:
            rows.append([(" ".join(str(value) for value in event.arguments.values()), "")])
        else:
            taken += 1
            letters, colours = (text.replace(" ", "") for text in guess)
            rows.append(list(zip(letters, colours, strict=False)))
    return Tiles(rows, min(max(facts["attempts"] - taken, 0), _MOST_LEFT), min(facts["letters"], 20))


def _sudoku(board: str, events: Sequence[Event]) -> SudokuBoard:
    grid = Grid.parse(board)
    placed = {(row, column) for event in events if (move := placed_number(event)) for row, column, _ in [move]}
    cells = [
        [
            (str(number) if (number := grid.at(row, column)) else "", _kind(number, (row, column) in placed))
            for column in range(1, SIZE + 1)
        ]
        for row in range(1, SIZE + 1)
    ]
    return SudokuBoard(cells, [_refused(event) for event in events if placed_number(event) is None])


def _kind(number: int, placed: bool) -> str:
    return "empty" if not number else "placed" if placed else "clue"


def _refused(event: Event) -> str:
    given = event.arguments
    if {"row", "column", "number"} <= given.keys():
        return f"{given['number']} at row {given['row']}, column {given['column']}"
    return " ".join(f"{name}={value}" for name, value in given.items())


def _catch(caught: bool, events: Sequence[Event]) -> Frames | None:
    frames: list[tuple[int, int, int]] = []
    for event in events:
        places = read_places(event.result or "")
        if places is not None:
            ball, paddle, left = places
            frames.append((ROWS - 1 - left, ball - 1, paddle - 1))
        elif frames and event.result is not None:
            # The last move is answered by its outcome alone.
            _, ball, paddle = frames[-1]
            moved = {"left": -1, "right": 1}.get(str(event.arguments.get("direction", "")), 0)
            frames.append((ROWS - 1, ball, min(max(paddle + moved, 0), COLUMNS - 1)))
    return Frames(frames, ROWS, COLUMNS, caught) if frames else None
