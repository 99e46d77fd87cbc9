"""A sweep: the jobs of `trl-env train -m`, one after the other, and what came of each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from trl_envs.config.compose import Composed
    from trl_envs.results.record import RunRecord


@dataclass(frozen=True)
class JobOutcome:
    """What came of one job.

    Args:
        run_name: Its run directory's name.
        varied: The overrides in which it differs from the other jobs.
        exit_code: As `trl-env train` alone would have ended.
        message: Why it failed; empty if it didn't.
        record: What it left; None if it was refused before it had a run directory.
    """

    run_name: str
    varied: str
    exit_code: int
    message: str
    record: RunRecord | None


def run_sweep(arguments: Sequence[str], recipe_dirs: Sequence[Path], *, all_sessions: bool, as_json: bool) -> None:
    """Runs all jobs; a job that fails doesn't keep the next from running, a signal does.

    Args:
        arguments: Overrides as typed, some with several values.
        recipe_dirs: As in `compose`.
        all_sessions: As in `launch.train`.
        as_json: Print the outcomes as JSON.

    Raises:
        ConfigError: Any job's config is wrong; none was started.
        Interrupted: Ctrl-C or a signal, after the table of what was done.
        typer.Exit: With code 1, if a job failed.
    """
    from trl_envs.cli.display import run_console
    from trl_envs.errors import Interrupted

    console = run_console()
    jobs = _jobs(arguments, recipe_dirs)
    outcomes: list[JobOutcome] = []
    try:
        for number, (varied, composed) in enumerate(jobs, start=1):
            console.rule(f"job {number} of {len(jobs)}: {varied or 'as it is'}", align="left")
            outcomes.append(_run(console, varied, composed, all_sessions=all_sessions))
    except Interrupted:
        console.print(_table(outcomes))
        raise
    console.print(_table(outcomes))
    if as_json:
        typer.echo(json.dumps([asdict(outcome) for outcome in outcomes], indent=2))
    if any(outcome.exit_code for outcome in outcomes):
        raise typer.Exit(1)


def _jobs(arguments: Sequence[str], recipe_dirs: Sequence[Path]) -> list[tuple[str, Composed]]:
    """All jobs, composed before the first starts, each with the overrides that tell it from the others."""
    from trl_envs.config.compose import compose
    from trl_envs.config.sweep import expand
    from trl_envs.launch import default_run_name
    from trl_envs.paths import make_importable

    expanded = expand(arguments)
    fixed = set.intersection(*({item.typed for item in job} for job in expanded))
    jobs = []
    for number, job in enumerate(expanded, start=1):
        composed = compose(job, recipe_dirs)
        make_importable(list(composed.import_folders))
        base = composed.config.run_name or default_run_name(composed)
        config = replace(composed.config, run_name=f"{base}-{number}")
        varied = " ".join(item.typed for item in job if item.typed not in fixed)
        jobs.append((varied, replace(composed, config=config)))
    return jobs


def _run(console: Console, varied: str, composed: Composed, *, all_sessions: bool) -> JobOutcome:
    from trl_envs import launch
    from trl_envs.cli.display import TrainDisplay
    from trl_envs.errors import Interrupted, TrlEnvError

    name = str(composed.config.run_name)
    try:
        record = launch.train(composed, TrainDisplay(console), all_sessions=all_sessions)
    except Interrupted:
        raise
    except TrlEnvError as error:
        console.print(f"error: {error.message}", markup=False, highlight=False, soft_wrap=True)
        return JobOutcome(name, varied, error.exit_code, error.message, None)
    return JobOutcome(record.run_name, varied, 0, "", record)


def _table(outcomes: Sequence[JobOutcome]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(title="jobs", title_justify="left")
    for heading in ("run", "varied", "outcome", "steps", "reward"):
        table.add_column(heading, overflow="fold")
    for outcome in outcomes:
        record = outcome.record
        reward = record.final_metrics.get("reward") if record else None
        table.add_row(
            Text(outcome.run_name),
            Text(outcome.varied),
            Text("finished" if record else f"exit {outcome.exit_code}: {outcome.message.splitlines()[0]}"),
            Text(str(record.global_step) if record else ""),
            Text(f"{reward:.3f}" if isinstance(reward, float) else ""),
        )
    return table
