"""Tables for people: what runs there are, and what one run has come to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rich.table import Table
from rich.text import Text

from trl_envs.results.metrics import number_of, term_of
from trl_envs.results.runs import RunSummary

STATUS_STYLES = {"finished": "green", "running": "cyan", "failed": "red", "died": "red", "interrupted": "yellow"}


@dataclass(frozen=True)
class _Row:
    """A line of the outcome: which metric, which way is better, and whether a sum over the steps means anything."""

    label: str
    key: str
    better: Literal["high", "low"] | None = None
    summed: bool = False


# After the terms; only those that were logged are shown.
_ROWS = (
    _Row("reward", "reward", "high"),
    _Row("tool calls per episode", "tools/call_frequency"),
    _Row("failed tool calls", "tools/failure_frequency", "low"),
    _Row("tokens per episode", "completions/mean_length"),
    _Row("seconds in environment", "time/environment_s", summed=True),
    _Row("seconds in generation", "time/generation_s", summed=True),
    _Row("episodes", "episodes/played", summed=True),
    _Row("lost episodes", "episodes/lost", "low", summed=True),
)


@dataclass(frozen=True)
class OutcomeRow:
    """One line of the outcome, as text; empty where there is nothing to say.

    Args:
        label: Of the term or figure.
        first: At the first step at which it was logged.
        last: At the last one.
        best: The best, and its step.
        total: Over all steps.
        bad: Whether the total is something to worry about.
        unscored: Whether it was logged and never had a value.
    """

    label: str
    first: str = ""
    last: str = ""
    best: str = ""
    total: str = ""
    bad: bool = False
    unscored: bool = False


def outcome_rows(metrics: Sequence[Mapping[str, Any]]) -> list[OutcomeRow]:
    """First, last and best logged value of every reward term and of what else matters, at the end of a run.

    Args:
        metrics: As `read_metrics` gives them. Values that are null (unscored) are passed over.
    """
    terms = sorted({term for line in metrics for key in line if (term := term_of(key))})
    found = []
    for row in [*(_Row(term, f"rewards/{term}/mean", "high") for term in terms), *_ROWS]:
        logged = [line for line in metrics if row.key in line]
        values = [(line.get("step"), value) for line in logged if (value := number_of(line, row.key)) is not None]
        if logged:
            found.append(_outcome_row(row, values) if values else OutcomeRow(row.label, unscored=True))
    return found


def outcome_table(metrics: Sequence[Mapping[str, Any]]) -> Table:
    """`outcome_rows` for a terminal."""
    table = Table(caption_justify="left")
    table.add_column("", overflow="fold")
    for heading in ("first", "last", "best", "total"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in outcome_rows(metrics):
        first = Text("never scored", "yellow") if row.unscored else Text(row.first)
        table.add_row(Text(row.label), first, Text(row.last), Text(row.best), Text(row.total, "red" if row.bad else ""))
    table.caption = outcome_caption(metrics)
    return table


def outcome_caption(metrics: Sequence[Mapping[str, Any]]) -> str:
    """What first, last and best are of."""
    shown = {row.key for row in _ROWS}
    steps = {line.get("step") for line in metrics if any(key in shown or term_of(key) for key in line)}
    if not steps:
        return "No step was logged."
    if len(steps) == 1:
        return "Only one step was logged: first, last and best are the same."
    return f"Means of the first and the last of {len(steps)} logged steps, and the best with its step."


def _outcome_row(row: _Row, values: Sequence[tuple[Any, float]]) -> OutcomeRow:
    numbers = [value for _, value in values]
    best = ""
    if row.better and not row.summed:
        # The first step that reached it.
        step, value = (max if row.better == "high" else min)(values, key=lambda pair: pair[1])
        best = f"{_number(value)} at {step}"
    total = _number(sum(numbers)) if row.summed else ""
    bad = row.key == "episodes/lost" and sum(numbers) > 0
    return OutcomeRow(row.label, _number(numbers[0]), _number(numbers[-1]), best, total, bad)


def _number(value: float) -> str:
    if value == int(value) and abs(value) >= 10:
        return f"{value:,.0f}"
    return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.3f}"


def run_table(runs: Sequence[RunSummary], *, narrow: bool = False) -> Table:
    """The runs with their outcomes, in the order given; why one failed is said by `run_causes`.

    Args:
        runs: The runs.
        narrow: Leave out what there is no room for on a terminal of less than some 120 columns.
    """
    table = Table(caption_justify="left")
    headings = ["run", "status", "step", "reward", "recipe", "preset", "episodes", "lost", "time", "started (UTC)"]
    shown = 4 if narrow else len(headings)
    for heading in headings[:shown]:
        justify: Literal["left", "right"] = "right" if heading in _RIGHT else "left"
        table.add_column(heading, justify=justify, no_wrap=heading != "run", overflow="fold")
    for run in runs:
        table.add_row(*_run_cells(run)[:shown])
    if not runs:
        table.caption = "No runs."
    return table


_RIGHT = ("step", "reward", "episodes", "lost", "time")


def _run_cells(run: RunSummary) -> list[Text]:
    name, status = Text(run.directory.name), Text(run.status, STATUS_STYLES.get(run.status, ""))
    started = Text(run.started_at[:19].replace("T", " "))
    record = run.record
    if record is None:
        return [name, status, *[Text("")] * 7, started]
    reward = number_of(record.final_metrics, "reward")
    return [
        name,
        status,
        Text(str(record.global_step)),
        Text("" if reward is None else _number(reward)),
        Text(record.recipe),
        Text(record.preset),
        Text(str(record.episodes)),
        Text(str(record.lost_episodes), "red" if record.lost_episodes else ""),
        Text("" if record.seconds is None else format_duration(record.seconds)),
        started,
    ]


def run_causes(runs: Sequence[RunSummary]) -> list[str]:
    """A line for each run that has something to say: why it failed, or why its record can't be read."""
    said = [(run.directory.name, run.record.message if run.record else run.problem) for run in runs]
    return [f"{name}: {text.partition(chr(10))[0]}" for name, text in said if text]


def format_duration(seconds: float) -> str:
    """`45s`, `3m05s` or `2h03m`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
