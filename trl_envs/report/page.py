"""The report as one HTML page that needs nothing but itself: styles, drawings and script are in it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from trl_envs.report.charts import BOX, Chart, build_chart
from trl_envs.report.contents import RunContents
from trl_envs.results.panels import Topic
from trl_envs.results.rundir import write_whole
from trl_envs.results.tables import format_duration

_FOLDER = Path(__file__).parent / "template"
_TOPICS: dict[Topic, str] = {
    "reward": "Reward terms, and their spread within groups",
    "episodes": "Episodes",
    "time": "Where a step's time goes",
    "policy": "Policy",
}


@dataclass(frozen=True)
class Difference:
    """A key of the config that has another value in each run; None where a run doesn't have it."""

    key: str
    values: list[str | None]


def write_page(runs: Sequence[RunContents], path: Path) -> None:
    """Writes the report of one run, or of two beside each other, whole or not at all.

    Args:
        runs: What is said of each.
        path: The file; replaced if it is there.

    Raises:
        OSError: The file can't be written.
    """
    page = render(runs)
    # Half a surrogate pair, which a model may well produce, can't be written.
    write_whole(path, page.encode("utf-8", errors="replace").decode("utf-8"))


def render(runs: Sequence[RunContents]) -> str:
    """The page as text."""
    # What a model wrote goes into it: everything is escaped, and only the script below may run.
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(duration=format_duration, figure=_figure, signed=_signed)
    script = (_FOLDER / "report.js").read_text(encoding="utf-8")
    return environment.get_template("report.html").render(
        runs=runs,
        title=" and ".join(one.run.name for one in runs),
        style=(_FOLDER / "report.css").read_text(encoding="utf-8"),
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        topics=[(heading, charts) for topic, heading in _TOPICS.items() if (charts := build_charts(runs, topic))],
        differences=differences(runs),
        labels=list(dict.fromkeys(row.label for one in runs for row in one.outcome)),
        packages=list(dict.fromkeys(name for one in runs if one.record for name in one.record.versions)),
        box=BOX,
    )


def build_charts(runs: Sequence[RunContents], topic: Topic) -> list[Chart]:
    """The charts of a topic, each with a line a run."""
    titles = dict.fromkeys(panel.title for one in runs for panel in one.panels if panel.topic == topic)
    return [
        build_chart([(n, panel) for n, one in enumerate(runs) for panel in one.panels if panel.title == title])
        for title in titles
    ]


def differences(runs: Sequence[RunContents]) -> list[Difference]:
    """Keys of the config in which the runs differ, their names aside."""
    keys = dict.fromkeys(key for one in runs for key in one.values if key != "run_name")
    compared = {key: [_value(one.values, key) for one in runs] for key in keys}
    return [Difference(key, values) for key, values in compared.items() if len(set(values)) > 1]


def _value(values: dict[str, Any], key: str) -> str | None:
    return str(values[key]) if key in values else None


def _figure(value: float | None) -> str:
    return "unscored" if value is None else f"{value:.3f}"


def _signed(value: float | None) -> str:
    return "" if value is None else f"{value:+.3f}"
