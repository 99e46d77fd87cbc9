"""Reward curves: which steps they hold, and that they can be read in a terminal."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from trl_envs.results.curves import build_curves, smooth
from trl_envs.results.terminal_curve import text_curve


def metrics(steps: int = 40) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = [
        {
            "step": step,
            "reward": 0.5,
            "rewards/catch.caught/mean": step / 80 + 0.05 * math.sin(step),
            "rewards/echo.length/mean": None if step % 2 else 1.0,
        }
        for step in range(1, steps + 1)
    ]
    return [*lines, {"step": steps, "train_runtime": 1.0}]


def test_a_curve_holds_the_steps_that_were_scored() -> None:
    caught, length = build_curves(metrics())
    assert (caught.term, length.term) == ("catch.caught", "echo.length")
    assert caught.steps == list(range(1, 41))
    assert length.steps == list(range(2, 41, 2))
    assert len(caught.smoothed) == 40
    assert build_curves(metrics(4)) == []
    assert build_curves([]) == []


def test_smoothing_takes_away_the_noise_and_keeps_the_ends_and_straight_lines() -> None:
    line = [0.1 * index for index in range(30)]
    assert smooth(line) == pytest.approx(line)
    saw = [index % 2 for index in range(40)]
    assert all(abs(value - 0.5) < 0.1 for value in smooth(saw)[10:30])
    assert smooth([3.0, 1.0]) == [3.0, 1.0]


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1", "no-such-encoding"])
def test_the_terminal_curve_rises_in_characters_that_can_be_written(encoding: str) -> None:
    text = text_curve(build_curves(metrics())[0], encoding)
    if encoding != "utf-8":
        text.encode("ascii")
    assert "\x1b" not in text
    heading, *plot, _, steps = text.splitlines()
    assert heading.startswith("catch.caught: ")
    assert len(plot) == 10
    assert max(map(len, text.splitlines())) <= 80
    assert steps.split() == ["step", "1", "40"]
    values = [float(number[0]) for line in plot if (number := re.match(r" *-?\d+\.\d+", line))]
    assert values == sorted(values, reverse=True) and len(values) == 3
    drawn = [[index for index, character in enumerate(line[6:]) if character not in " .·"] for line in plot]
    # The line is at the left below and at the right above.
    assert max(drawn[-1]) < 20 and min(drawn[0] or drawn[1]) > 40


def test_a_constant_curve_is_drawn_in_the_middle() -> None:
    text = text_curve(build_curves(metrics())[1], "ascii")
    rows = text.splitlines()[1:11]
    assert [index for index, row in enumerate(rows) if "*" in row] in ([4], [5])
