"""Charts: ticks that are round and hold all values, and places within the drawing."""

from __future__ import annotations

import json

import pytest

from trl_envs.report.charts import BOX, build_chart
from trl_envs.results.panels import Panel


def panel(
    values: list[float], *, first: int = 1, low: list[float] | None = None, high: list[float] | None = None
) -> Panel:
    steps = list(range(first, first + len(values)))
    return Panel("reward", "a term", steps, values, values, low or [], high or [])


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([0.3, 0.9], ["0.2", "0.4", "0.6", "0.8", "1.0"]),
        ([0.3071, 0.3074], ["0.3071", "0.3072", "0.3073", "0.3074"]),
        ([0.30712, 0.30718], ["0.30712", "0.30714", "0.30716", "0.30718"]),
        ([0.0, 0.0], ["0.0", "0.5", "1.0"]),
        ([-0.2, 0.1], ["-0.2", "-0.1", "0.0", "0.1"]),
        ([900.0, 5200.0], ["0", "2,000", "4,000", "6,000"]),
        ([1e-6, 1e-6], ["5e-07", "1e-06", "1.5e-06"]),
    ],
    ids=["share", "close", "closer", "zero", "signs", "thousands", "tiny"],
)
def test_ticks_are_round_distinct_and_around_the_values(values: list[float], labels: list[str]) -> None:
    chart = build_chart([(0, panel(values))])
    assert [label for _, label in chart.y_ticks] == labels
    assert chart.y_ticks[0][0] == BOX["bottom"] and chart.y_ticks[-1][0] == BOX["top"]


def test_every_place_lies_within_the_plot() -> None:
    runs = [(0, panel([0.1, 5.0, -2.0], low=[-3.0, 0.0, -4.0], high=[1.0, 9.0, 0.0])), (1, panel([7.0], first=40))]
    chart = build_chart(runs)
    places = [tuple(map(float, pair.split(","))) for line in chart.lines for pair in f"{line.raw} {line.band}".split()]
    assert all(BOX["left"] <= x <= BOX["right"] and BOX["top"] <= y <= BOX["bottom"] for x, y in places)
    assert len(chart.lines[0].band.split()) == 6
    assert [entry["run"] for entry in json.loads(chart.data)] == [0, 1]
    assert chart.latest == [(0, "-2"), (1, "7")]


def test_a_long_run_is_thinned_and_keeps_its_ends() -> None:
    chart = build_chart([(0, panel([float(step) for step in range(10_000)]))])
    [line] = chart.lines
    assert 500 < len(line.places) < 700
    assert (line.places[0][0], line.places[-1][0]) == (1, 10_000)


def test_one_step_has_a_place() -> None:
    [line] = build_chart([(0, panel([0.5]))]).lines
    assert line.places == [[1, 0.5, float(BOX["left"]), pytest.approx((BOX["top"] + BOX["bottom"]) / 2)]]
