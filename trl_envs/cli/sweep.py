"""A sweep: the jobs of `trl-env train -m`, one after the other here, or submitted, and what came of each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from trl_envs.cli.outcomes import Job, JobOutcome, outcome_rows

if TYPE_CHECKING:
    from rich.console import Console

    from trl_envs.config.cluster import ClusterSettings
    from trl_envs.config.compose import Composed


def run_sweep(arguments: Sequence[str], recipe_dirs: Sequence[Path], *, all_sessions: bool, as_json: bool) -> None:
    """Runs all jobs; a job that fails doesn't keep the next from running, a signal does.

    Args:
        arguments: Overrides as typed, some with several values; hydra/launcher and hydra.launcher.* among them.
        recipe_dirs: As in `compose`.
        all_sessions: As in `launch.train`.
        as_json: Print the outcomes as JSON.

    Raises:
        ConfigError: Any job's config or the launcher's is wrong; none was started.
        PreflightError: There is no such cluster here.
        Interrupted: Ctrl-C or a signal, after the table of what was done.
        typer.Exit: With code 1, if a job failed.
    """
    from trl_envs.cli.display import run_console
    from trl_envs.config.cluster import compose_launcher, split_launcher

    console = run_console()
    of_launcher, others = split_launcher(arguments)
    jobs = _jobs(others, recipe_dirs, submitted=bool(of_launcher))
    folder = jobs[0].directory.parent / ".submitit"
    settings = compose_launcher(of_launcher, folder, jobs[0].run_name.rpartition("-")[0])
    outcomes = _outcomes(console, jobs, settings, folder, all_sessions=all_sessions)
    console.print(outcome_rows(outcomes))
    if as_json:
        typer.echo(json.dumps([asdict(outcome) for outcome in outcomes], indent=2))
    if any(outcome.exit_code for outcome in outcomes):
        raise typer.Exit(1)


def _jobs(arguments: Sequence[str], recipe_dirs: Sequence[Path], *, submitted: bool) -> list[Job]:
    """All jobs, composed before the first starts, each with the overrides that tell it from the others."""
    from trl_envs.config.compose import compose
    from trl_envs.config.sweep import expand
    from trl_envs.launch import default_run_name
    from trl_envs.paths import make_importable

    expanded = expand(arguments)
    fixed = set.intersection(*({item.typed for item in job} for job in expanded))
    jobs = []
    for number, items in enumerate(expanded, start=1):
        composed = compose(items, recipe_dirs)
        make_importable(list(composed.import_folders))
        base = composed.config.run_name or default_run_name(composed)
        varied = " ".join(item.typed for item in items if item.typed not in fixed)
        named = Job(number, varied, _named(composed, f"{base}-{number}"))
        # Whoever gathers the outcomes of submitted jobs looks for them by name.
        again = 2
        while submitted and named.directory.exists():
            named, again = replace(named, composed=_named(composed, f"{base}-{number}-{again}")), again + 1
        jobs.append(named)
    return jobs


def _named(composed: Composed, name: str) -> Composed:
    return replace(composed, config=replace(composed.config, run_name=name))


def _outcomes(
    console: Console, jobs: Sequence[Job], settings: ClusterSettings | None, folder: Path, *, all_sessions: bool
) -> list[JobOutcome]:
    from trl_envs.errors import Interrupted

    if settings is not None:
        from trl_envs.cli.cluster import run_on_cluster

        return run_on_cluster(console, jobs, settings, folder, all_sessions=all_sessions)
    outcomes: list[JobOutcome] = []
    try:
        for job in jobs:
            console.rule(f"job {job.number} of {len(jobs)}: {job.varied or 'as it is'}", align="left")
            outcomes.append(_run(console, job, all_sessions=all_sessions))
    except Interrupted:
        console.print(outcome_rows(outcomes))
        raise
    return outcomes


def _run(console: Console, job: Job, *, all_sessions: bool) -> JobOutcome:
    from trl_envs import launch
    from trl_envs.cli.display import TrainDisplay
    from trl_envs.errors import Interrupted, TrlEnvError

    try:
        record = launch.train(job.composed, TrainDisplay(console), all_sessions=all_sessions)
    except Interrupted:
        raise
    except TrlEnvError as error:
        console.print(f"error: {error.message}", markup=False, highlight=False, soft_wrap=True)
        return JobOutcome(job.run_name, job.varied, error.exit_code, error.message, None)
    return JobOutcome(record.run_name, job.varied, 0, "", record)
