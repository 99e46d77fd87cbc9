"""How a run's reward terms went over its steps: the series, smoothed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from trl_envs.results.metrics import number_of, term_of

# A curve of fewer steps says nothing.
FEWEST_STEPS = 5


@dataclass(frozen=True)
class Curve:
    """One reward term over the steps.

    Args:
        term: `<environment>.<term>`.
        steps: Steps at which it was logged, unscored ones left out.
        values: Its mean at each of them.
        smoothed: The same as moving averages.
    """

    term: str
    steps: list[int]
    values: list[float]
    smoothed: list[float]


def build_curves(metrics: Sequence[Mapping[str, Any]]) -> list[Curve]:
    """The curves of a run, by term; none for terms logged at fewer than `FEWEST_STEPS` steps.

    Args:
        metrics: As `read_metrics` gives them.
    """
    curves = []
    for term in sorted({term for line in metrics for key in line if (term := term_of(key))}):
        logged = [(line.get("step"), number_of(line, f"rewards/{term}/mean")) for line in metrics]
        points = [(step, value) for step, value in logged if isinstance(step, int) and value is not None]
        if len(points) >= FEWEST_STEPS:
            values = [value for _, value in points]
            curves.append(Curve(term, [step for step, _ in points], values, smooth(values)))
    return curves


def smooth(values: Sequence[float]) -> list[float]:
    """Averages over a fifth of the values, centred; towards the ends over as many as there are on both sides."""
    reach = len(values) // 10
    smoothed = []
    for index in range(len(values)):
        around = min(reach, index, len(values) - 1 - index)
        smoothed.append(fmean(values[index - around : index + around + 1]))
    return smoothed
