"""What each difficulty tells the model about the grid; the amounts are those of TRL's Sudoku example."""

from __future__ import annotations

from trl_envs.envs.sudoku.grid import Grid

EASY_CELLS = 5
EASY_MOST_OPTIONS = 3
MEDIUM_CELLS = 10


def easy(grid: Grid) -> str:
    """Up to five cells with one candidate, and up to five with two or three, the fewest first."""
    options = sorted(((cell, grid.candidates(*cell)) for cell in grid.empty), key=lambda found: len(found[1]))
    certain = [found for found in options if len(found[1]) == 1][:EASY_CELLS]
    open_ = [found for found in options if 1 < len(found[1]) <= EASY_MOST_OPTIONS][:EASY_CELLS]
    lines = []
    if certain:
        lines.append(f"Only one candidate: {_listed(certain)}")
    if open_:
        lines.append(f"Candidates: {_listed(open_)}")
    return "\n".join(lines)


def medium(grid: Grid) -> str:
    """The first ten empty cells, row by row, with their candidates."""
    cells = [(cell, grid.candidates(*cell)) for cell in grid.empty[:MEDIUM_CELLS]]
    return f"Candidates: {_listed(cells)}" if cells else ""


def hard(grid: Grid) -> str:
    """Nothing."""
    return ""


HINTS = {"easy": easy, "medium": medium, "hard": hard}


def _listed(cells: list[tuple[tuple[int, int], list[int]]]) -> str:
    """Such as `(1,3): 4, (2,5): 6 or 7`, row before column."""
    return ", ".join(f"({row},{column}): {' or '.join(map(str, options))}" for (row, column), options in cells)
