"""Panels as drawings of lines: where everything lies in an SVG. The page's template writes it down."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from trl_envs.results.panels import Panel

# The SVG's size and where the plot lies in it, in its own units.
BOX = {"width": 350, "height": 160, "left": 46, "right": 342, "top": 8, "bottom": 136}
# More points than a drawing of this width can show.
_MOST_POINTS = 600
_TICKS = 4


@dataclass(frozen=True)
class Line:
    """One run's line; `points` of an SVG polyline or polygon.

    Args:
        run: Number of the run, from 0.
        raw: Each step.
        smoothed: The moving average.
        band: Between the lower and the upper end; empty for none.
        places: Step, value, and x and y of the moving average, a list a point.
    """

    run: int
    raw: str
    smoothed: str
    band: str
    places: list[list[float]]


@dataclass(frozen=True)
class Chart:
    """One panel of one run or of several over each other.

    Args:
        title: Of the panel.
        lines: A line a run that has it.
        x_ticks: Place and label of each tick below.
        y_ticks: Place and label of each tick at the left.
        latest: Last value of each line, as text.
    """

    title: str
    lines: list[Line]
    x_ticks: list[tuple[float, str]]
    y_ticks: list[tuple[float, str]]
    latest: list[tuple[int, str]]

    @property
    def data(self) -> str:
        """What the page's script reads."""
        return json.dumps([{"run": line.run, "places": line.places} for line in self.lines], separators=(",", ":"))


def build_chart(panels: Sequence[tuple[int, Panel]]) -> Chart:
    """Lays panels of one title over each other.

    Args:
        panels: At least one, each with the number of its run.
    """
    steps = [step for _, panel in panels for step in panel.steps]
    values = [value for _, panel in panels for value in (*panel.values, *panel.low, *panel.high)]
    x_ticks, y_ticks = _ticks(min(steps), max(steps), whole=True), _ticks(min(values), max(values))
    # Steps lie where they are; values between the outer ticks.
    x_low, x_high = min(steps), max(max(steps), min(steps) + 1)
    left, right, top, bottom = (BOX[side] for side in ("left", "right", "top", "bottom"))
    y_low, y_high = min(y_ticks[0], min(values)), max(y_ticks[-1], max(values))

    def x(step: float) -> float:
        return round(left + (step - x_low) / (x_high - x_low) * (right - left), 1)

    def y(value: float) -> float:
        return round(bottom - (value - y_low) / (y_high - y_low) * (bottom - top), 1)

    def line(run: int, panel: Panel) -> Line:
        stride = -(-len(panel.steps) // _MOST_POINTS)
        # The last point belongs to it.
        kept = sorted({*range(0, len(panel.steps), stride), len(panel.steps) - 1})
        upper = [(panel.steps[i], panel.high[i]) for i in kept] if panel.high else []
        lower = [(panel.steps[i], panel.low[i]) for i in reversed(kept)] if panel.low else []
        return Line(
            run,
            _points([(x(panel.steps[i]), y(panel.values[i])) for i in kept]),
            _points([(x(panel.steps[i]), y(panel.smoothed[i])) for i in kept]),
            _points([(x(step), y(value)) for step, value in upper + lower]),
            [[panel.steps[i], panel.values[i], x(panel.steps[i]), y(panel.values[i])] for i in kept],
        )

    return Chart(
        title=panels[0][1].title,
        lines=[line(run, panel) for run, panel in panels],
        x_ticks=[(x(tick), f"{tick:,.0f}") for tick in x_ticks if x_low <= tick <= x_high],
        y_ticks=[(y(tick), _label(tick, y_ticks[1] - y_ticks[0])) for tick in y_ticks],
        latest=[(run, _label(panel.values[-1])) for run, panel in panels],
    )


def _points(places: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in places)


def _ticks(low: float, high: float, *, whole: bool = False) -> list[float]:
    """Round numbers from below `low` to above `high`, some `_TICKS` of them; two at least."""
    if high - low <= 1e-12 * max(abs(low), abs(high)):
        # All the same: a little room on both sides.
        room = abs(low) / 2
        low, high = (low, high + 1) if whole or not room else (low - room, high + room)
    rough = (high - low) / _TICKS
    power = 10 ** math.floor(math.log10(rough))
    apart = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    if whole:
        apart = max(1, round(apart))
    first, last = math.floor(low / apart + 1e-9), math.ceil(high / apart - 1e-9)
    return [round(number * apart, 12) for number in range(first, last + 1)]


def _label(value: float, apart: float = 0.0) -> str:
    """A number in few characters; a tick's as exact as the distance to the next one asks for."""
    size = apart or abs(value)
    if size and (size < 0.99e-4 or abs(value) >= 1e6):
        digits = math.floor(math.log10(abs(value) or size)) - math.floor(math.log10(size) + 1e-9) + 1
        return f"{value:.{digits if apart else 2}g}"
    if apart:
        return f"{value:,.{max(0, -math.floor(math.log10(apart) + 1e-9))}f}"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
