"""Scripted players of sudoku."""

from __future__ import annotations

import random
from typing import Any

from trl_envs.envs.episode import Episode
from trl_envs.envs.sudoku.grid import SIZE, Grid

Move = tuple[str, dict[str, Any]]


def random_policy(observation: str, episode: Episode, rng: random.Random) -> Move | None:
    """Any number in any empty cell, until the game is over."""
    if episode.done or episode.lost is not None:
        return None
    row, column = rng.choice(Grid.parse(episode.facts["board"]).empty)
    return "place", {"row": row, "column": column, "number": rng.randint(1, SIZE)}


def solver(observation: str, episode: Episode, rng: random.Random) -> Move | None:
    """The cell with the fewest candidates, filled as in the grid's solution."""
    if episode.done or episode.lost is not None:
        return None
    grid = Grid.parse(episode.facts["board"])
    solution = solve(grid)
    if solution is None:
        return None
    row, column = _next_cell(grid)[0]
    return "place", {"row": row, "column": column, "number": solution.at(row, column)}


def explain(observation: str, episode: Episode, move: Move) -> str:
    """Why the solver makes the move."""
    row, column, number = (move[1][name] for name in ("row", "column", "number"))
    candidates = Grid.parse(episode.facts["board"]).candidates(row, column)
    where = f"Row {row}, column {column}"
    if len(candidates) == 1:
        return f"{where} can only be {number}."
    return f"{where} can be {', '.join(map(str, candidates))}; the rest of the grid asks for {number}."


def solve(grid: Grid) -> Grid | None:
    """The grid with all cells filled; None if that can't be done."""
    if not grid.empty:
        return grid
    cell, options = _next_cell(grid)
    for number in options:
        solution = solve(grid.placed(*cell, number))
        if solution is not None:
            return solution
    return None


def _next_cell(grid: Grid) -> tuple[tuple[int, int], list[int]]:
    """The empty cell with the fewest candidates, and those."""
    return min(((cell, grid.candidates(*cell)) for cell in grid.empty), key=lambda found: len(found[1]))
