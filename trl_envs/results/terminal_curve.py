"""A reward curve in characters: readable without colour, in braille where the encoding has it, else in ASCII."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from trl_envs.results.curves import Curve

WIDTH, HEIGHT = 64, 10
# Dots of a braille character by column and row (Unicode 15.0, section 21.1): 2 x 4 to a cell, from U+2800 on.
_BRAILLE = 0x2800
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))


def text_curve(curve: Curve, encoding: str, width: int = WIDTH, height: int = HEIGHT) -> str:
    """The curve with its axes: the moving average as a line, each step as a dot.

    Args:
        curve: Of two steps or more.
        encoding: Of where it is going to be written.
        width: Characters of the plot, without the numbers left of it.
        height: Lines of the plot.
    """
    braille = _can_write(encoding)
    columns, rows = (2 * width, 4 * height) if braille else (width, height)
    low, high = _bounds(curve)

    def place(step: float, value: float) -> tuple[int, int]:
        across = (step - curve.steps[0]) / max(curve.steps[-1] - curve.steps[0], 1)
        return round(across * (columns - 1)), round((high - value) / (high - low) * (rows - 1))

    points = {place(step, value) for step, value in zip(curve.steps, curve.values, strict=True)}
    corners = [place(step, value) for step, value in zip(curve.steps, curve.smoothed, strict=True)]
    line = {dot for start, end in pairwise(corners) for dot in _between(start, end)}
    cells = _braille(points, line, width, height) if braille else _ascii(points, line, width, height)
    return "\n".join([_heading(curve, braille), *_framed(cells, low, high, braille), *_steps(curve, width)])


def _bounds(curve: Curve) -> tuple[float, float]:
    """The least and the greatest value, apart even if all are the same."""
    low, high = min(curve.values), max(curve.values)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _can_write(encoding: str) -> bool:
    try:
        f"{chr(_BRAILLE)}│┤└─·".encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _between(start: tuple[int, int], end: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """The dots of a straight line."""
    length = max(abs(end[0] - start[0]), abs(end[1] - start[1]), 1)
    for index in range(length + 1):
        part = index / length
        yield round(start[0] + part * (end[0] - start[0])), round(start[1] + part * (end[1] - start[1]))


def _braille(points: set[tuple[int, int]], line: set[tuple[int, int]], width: int, height: int) -> list[str]:
    cells = [[0] * width for _ in range(height)]
    for column, row in line:
        cells[row // 4][column // 2] |= _DOTS[column % 2][row % 4]
    single = {(column // 2, row // 4) for column, row in points}
    return [
        "".join(
            chr(_BRAILLE + dots) if dots else "·" if (column, row) in single else " "
            for column, dots in enumerate(cell)
        )
        for row, cell in enumerate(cells)
    ]


def _ascii(points: set[tuple[int, int]], line: set[tuple[int, int]], width: int, height: int) -> list[str]:
    return [
        "".join("*" if (c, r) in line else "." if (c, r) in points else " " for c in range(width))
        for r in range(height)
    ]


def _heading(curve: Curve, braille: bool) -> str:
    return f"{curve.term}: {'line' if braille else '*'} moving average, {'·' if braille else '.'} each step"


def _framed(cells: list[str], low: float, high: float, braille: bool) -> list[str]:
    """The plot with its values at the left: at the top, in the middle and at the bottom."""
    last = len(cells) - 1
    labels = {row: f"{high - row / last * (high - low):.2f}" for row in (0, last // 2, last)}
    margin = max(map(len, labels.values()))
    tick, side, corner, floor = "┤│└─" if braille else "||+-"
    lines = [
        f"{labels.get(row, ''):>{margin}} {tick if row in labels else side}{cell.rstrip()}"
        for row, cell in enumerate(cells)
    ]
    return [*lines, f"{'':>{margin}} {corner}{floor * len(cells[0])}"]


def _steps(curve: Curve, width: int) -> list[str]:
    labels = [f"{value:.2f}" for value in _bounds(curve)]
    first, last = f"step {curve.steps[0]}", str(curve.steps[-1])
    return [" " * (max(map(len, labels)) + 2) + first + last.rjust(width - len(first))]
