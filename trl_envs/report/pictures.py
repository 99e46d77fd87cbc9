"""A run's panels as a PNG: `python -m trl_envs.report.pictures RUN_DIR`.

A child of the launcher, which needn't wait a second for matplotlib, nor hold it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from trl_envs.report.contents import read_contents
from trl_envs.results.panels import Panel, worth_drawing
from trl_envs.results.rundir import RunDirectory

_COLUMNS = 2
_PANEL_INCHES = (6.0, 2.4)
_DOTS_PER_INCH = 110


def main(arguments: list[str]) -> int:
    """Draws the run that the arguments name into its directory."""
    parser = argparse.ArgumentParser(prog="python -m trl_envs.report.pictures")
    parser.add_argument("run_dir", type=Path)
    draw_run(RunDirectory(parser.parse_args(arguments).run_dir))
    return 0


def draw_run(run: RunDirectory) -> None:
    """Draws a run's panels into its directory; nothing for a run of few steps."""
    panels = read_contents(run).panels
    if worth_drawing(panels):
        draw_panels(panels, run.curve_file, run.name)


def draw_panels(panels: Sequence[Panel], path: Path, title: str) -> None:
    """Writes panels as a PNG, two beside each other.

    Args:
        panels: At least one.
        path: The file; replaced, whole or not at all, if it is there.
        title: Above them all.
    """
    # No pyplot: it would ask for a screen.
    width, height = _PANEL_INCHES
    rows = -(-len(panels) // _COLUMNS)
    figure = Figure(figsize=(width * _COLUMNS, 0.6 + height * rows), layout="constrained")
    FigureCanvasAgg(figure)
    # A dollar sign would begin a formula.
    figure.suptitle(title.replace("$", r"\$"))
    axes = list(figure.subplots(rows, _COLUMNS, squeeze=False).flat)
    for axis, panel in zip(axes, panels, strict=False):
        _draw(axis, panel)
    for axis in axes[len(panels) :]:
        axis.set_axis_off()
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        figure.savefig(draft, format="png", dpi=_DOTS_PER_INCH)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _draw(axis: Axes, panel: Panel) -> None:
    if panel.low:
        axis.fill_between(panel.steps, panel.low, panel.high, color="#9db7d1", alpha=0.35, linewidth=0)
    axis.plot(panel.steps, panel.values, color="#9db7d1", linewidth=1, marker=".", markersize=3)
    axis.plot(panel.steps, panel.smoothed, color="#1f4e79", linewidth=2.0)
    axis.set_title(panel.title.replace("$", r"\$"), fontsize=10, loc="left")
    axis.grid(alpha=0.3)
    if not any(panel.values):
        axis.set_ylim(0, 1)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
