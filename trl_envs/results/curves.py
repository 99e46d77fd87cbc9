"""How a run's reward terms went over its steps: the series, smoothed, and drawn as a PNG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from trl_envs.results.metrics import number_of, read_metrics, term_of
from trl_envs.results.rundir import RunDirectory

# A curve of fewer steps says nothing.
FEWEST_STEPS = 5
# Of a picture of one term; each further one adds as much height.
_INCHES = (7.0, 2.8)
_DOTS_PER_INCH = 120


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


def draw_run(run: RunDirectory) -> None:
    """Draws a run's curves into its directory; nothing for a run of few steps."""
    curves = build_curves(read_metrics(run.metrics_file))
    if curves:
        draw_curves(curves, run.curve_file, run.name)


def draw_curves(curves: Sequence[Curve], path: Path, title: str) -> None:
    """Writes the curves as a PNG, one below the other.

    Args:
        curves: At least one.
        path: The file; replaced if it is there.
        title: Above them all.
    """
    # matplotlib takes a second to import. No pyplot: it would ask for a screen.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    width, height = _INCHES
    figure = Figure(figsize=(width, 0.6 + height * len(curves)), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title)
    panels = figure.subplots(len(curves), 1, squeeze=False)[:, 0]
    for panel, curve in zip(panels, curves, strict=True):
        panel.plot(curve.steps, curve.values, color="#9db7d1", linewidth=1, marker=".", markersize=3, label="each step")
        panel.plot(curve.steps, curve.smoothed, color="#1f4e79", linewidth=2.2, label="moving average")
        panel.set_ylabel(curve.term)
        panel.grid(alpha=0.3)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    panels[0].legend(loc="best", frameon=False)
    panels[-1].set_xlabel("step")
    figure.savefig(path, format="png", dpi=_DOTS_PER_INCH)
