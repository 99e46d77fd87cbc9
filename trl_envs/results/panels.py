"""A run's figures over its steps, a panel a figure: what the report draws, as a page and as a picture."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

from trl_envs.results.curves import FEWEST_STEPS, smooth
from trl_envs.results.metrics import number_of, term_of
from trl_envs.results.played import Played, groups_of, weighted_sum

Topic = Literal["reward", "episodes", "time", "policy"]
Line = Mapping[str, Any]


@dataclass(frozen=True)
class Panel:
    """One figure over the steps.

    Args:
        topic: With which others it is shown.
        title: What it is, with its unit.
        steps: Steps at which there is a value.
        values: The value at each of them.
        smoothed: The same as moving averages.
        low: Lower end of a band around it, a value a step; empty for no band.
        high: Upper end.
    """

    topic: Topic
    title: str
    steps: list[int]
    values: list[float]
    smoothed: list[float]
    low: list[float]
    high: list[float]


@dataclass(frozen=True)
class _Figure:
    topic: Topic
    title: str
    key: str
    low: str = ""
    high: str = ""


# Behind the reward and its terms; only what was logged is shown.
_FIGURES = (
    _Figure("episodes", "tokens per episode", "completions/mean_length",
            "completions/min_length", "completions/max_length"),
    _Figure("episodes", "cut off (share)", "completions/clipped_ratio"),
    _Figure("episodes", "tool calls per episode", "tools/call_frequency"),
    _Figure("episodes", "failed calls (share)", "tools/failure_frequency"),
    _Figure("episodes", "episodes lost", "episodes/lost"),
    _Figure("time", "environment (seconds)", "time/environment_s"),
    _Figure("time", "generation (seconds)", "time/generation_s"),
    _Figure("time", "optimization (seconds)", "time/optimization_s"),
    _Figure("policy", "entropy (nats)", "entropy"),
    _Figure("policy", "learning rate", "learning_rate"),
)  # fmt: skip


def build_panels(metrics: Sequence[Line], played: Sequence[Played], weights: Mapping[str, float]) -> list[Panel]:
    """The panels of a run, those of one topic together; none for what was never logged.

    Args:
        metrics: As `read_metrics` gives them.
        played: The run's episodes of training.
        weights: Weight of each reward term by full name.
    """
    lines = [line for line in metrics if "reward" in line and isinstance(line.get("step"), int)]
    spreads = spread_within_groups(played, weights)
    terms = sorted({term for line in lines for key in line if (term := term_of(key))})
    panels = []
    names = [("", "reward", "reward"), *((term, term, f"rewards/{term}/mean") for term in terms)]
    for name, title, key in names:
        panels.append(_panel(lines, _Figure("reward", title, key)))
        points = sorted(spreads.get(name, {}).items())
        panels.append(_drawn("reward", f"{title}: spread", points))
    panels += [_panel(lines, figure) for figure in _FIGURES if figure.key != "episodes/lost" or _any(lines, figure.key)]
    return [panel for panel in panels if panel.steps]


def worth_drawing(panels: Sequence[Panel]) -> bool:
    """Whether any has enough steps to say something."""
    return any(len(panel.steps) >= FEWEST_STEPS for panel in panels)


def spread_within_groups(played: Sequence[Played], weights: Mapping[str, float]) -> dict[str, dict[int, float]]:
    """By term (the weighted sum under the empty name) and step, the mean over groups of the standard deviation (n - 1).

    Groups of which fewer than two episodes are scored are left out.
    """
    found: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for group in groups_of(played):
        values: dict[str, list[float]] = defaultdict(list)
        for one in group:
            for name, value in [*one.scores.items(), ("", weighted_sum(one.scores, weights))]:
                if value is not None:
                    values[name].append(value)
        for name, there in values.items():
            if len(there) > 1:
                found[name][group[0].step].append(_deviation(there))
    return {name: {step: fmean(each) for step, each in steps.items()} for name, steps in found.items()}


def _deviation(values: Sequence[float]) -> float:
    # statistics.stdev computes in fractions, which takes seconds for the episodes of a long run.
    mean = fmean(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def _any(lines: Sequence[Line], key: str) -> bool:
    return any(number_of(line, key) for line in lines)


def _panel(lines: Sequence[Line], figure: _Figure) -> Panel:
    logged = [(line, value) for line in lines if (value := number_of(line, figure.key)) is not None]
    ends = [(number_of(line, figure.low), number_of(line, figure.high)) for line, _ in logged]
    banded = [(low, high) for low, high in ends if low is not None and high is not None]
    points = [(int(line["step"]), value) for line, value in logged]
    return _drawn(figure.topic, figure.title, points, banded if len(banded) == len(points) else [])


def _drawn(
    topic: Topic, title: str, points: Sequence[tuple[int, float]], band: Sequence[tuple[float, float]] = ()
) -> Panel:
    values = [value for _, value in points]
    steps = [step for step, _ in points]
    return Panel(topic, title, steps, values, smooth(values), [low for low, _ in band], [high for _, high in band])
