"""`trl-env train`: run a recipe."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from trl_envs.cli.findings import figure_lines, warning_lines
from trl_envs.cli.options import AsJson, Overrides, ProbeSpaces, RecipeDirs, compose_typed

if TYPE_CHECKING:
    from rich.console import Console

    from trl_envs.plan.launch_plan import LaunchPlan
    from trl_envs.preflight.findings import Report
    from trl_envs.results.record import RunRecord
    from trl_envs.results.rundir import RunDirectory


def train(
    context: typer.Context,
    overrides: Overrides = None,
    recipe_dir: RecipeDirs = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the commands that would run, to be pasted into a shell.")
    ] = False,
    probe: ProbeSpaces = False,
    as_json: AsJson = False,
) -> None:
    """Train a recipe: start its environment server and the trainer, watch them, and show what came of it.

    \b
    trl-env train recipe=catch preset=smoke
    trl-env train recipe=catch model=Qwen/Qwen3-0.6B grpo.max_steps=50 run_name=first
    trl-env train recipe=catch envs.catch.url=http://127.0.0.1:8001
    trl-env train recipe=catch preset=smoke --dry-run

    Exit codes: 0 trained, 1 training failed, 2 refused before it started, 3 a server didn't start,
    4 a process ended before the run did, 130 Ctrl-C, 143 SIGTERM.
    """
    from rich.console import Console

    from trl_envs import launch

    composed = compose_typed(overrides, context, recipe_dir)
    if dry_run:
        plan = launch.plan_run(composed)
        typer.echo(json.dumps(plan.as_dict(), indent=2) if as_json else _commands(plan))
        return
    console = Console(stderr=True)
    record = launch.train(composed, TrainDisplay(console), all_sessions=probe)
    _show_outcome(console, composed.config.output_dir, record)
    if as_json:
        typer.echo(json.dumps(asdict(record), indent=2))


def _commands(plan: LaunchPlan) -> str:
    lines = [f"# launch: {plan.mode} on {plan.device} ({plan.reason})"]
    for spec in plan.processes():
        lines += ["", f"# {spec.name}", spec.command()]
    return "\n".join(
        [*lines, "", "# The trainer reads config.yaml and plan.json of the run directory, written by train."]
    )


class TrainDisplay:
    """Shows a run on a console.

    Args:
        console: On stderr: stdout is for data.
    """

    def __init__(self, console: Console) -> None:
        self._console = console

    def planned(self, plan: LaunchPlan, run: RunDirectory) -> None:
        """The plan, before anything starts."""
        batch = plan.batch
        self._say(f"run      {run.path}")
        self._say(f"launch   {plan.mode} on {plan.device}: {plan.reason}")
        self._say(
            f"batch    {batch.generation_batch} episodes at once: {batch.groups} groups of {batch.num_generations}, "
            f"{batch.sessions} sessions an environment"
        )

    def server_ready(self, name: str, urls: tuple[str, ...], seconds: float) -> None:
        """The servers of an environment answer."""
        self._say(f"server   {name}: {', '.join(urls)} ready after {seconds:.1f} s")

    def probing(self) -> None:
        """The probe begins."""
        self._say("probe    tools, template, sessions and a scripted episode (imports take a few seconds)")

    def probed(self, report: Report) -> None:
        """What the probe measured, and its warnings; its errors end the run and are printed as one."""
        for line in [*figure_lines(report), *warning_lines(report)]:
            self._say(line)

    @contextmanager
    def training(self, run: RunDirectory, plan: LaunchPlan) -> Iterator[Callable[[], None]]:
        """The trainer's output, and below it a line on how it goes."""
        from trl_envs.cli.progress import TrainingProgress
        from trl_envs.results.textlines import TextTail

        self._say("trainer  starting (importing torch and TRL takes a few seconds)")
        output = TextTail(run.logs_dir / f"{plan.trainer.name}.log")
        with TrainingProgress(self._console, run.metrics_file, plan.batch.steps) as progress:

            def tick() -> None:
                for line in output.new():
                    self._say(line)
                progress.tick()

            yield tick

    @contextmanager
    def evaluating(self, run: RunDirectory, name: str, episodes: int) -> Iterator[Callable[[], None]]:
        """Lines on how far an evaluation is."""
        from trl_envs.cli.evaluation import EvaluationProgress

        yield EvaluationProgress(self._say, run.eval_dir / f"{name}.jsonl", name, episodes).tick

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def _show_outcome(console: Console, output_dir: str, record: RunRecord) -> None:
    from pathlib import Path

    from trl_envs.cli.evaluation import show_comparison, show_curves
    from trl_envs.results.metrics import read_metrics
    from trl_envs.results.rundir import RunDirectory
    from trl_envs.results.tables import outcome_table

    run = RunDirectory(Path(output_dir).expanduser().absolute() / record.run_name)
    console.print(outcome_table(read_metrics(run.metrics_file)))
    show_curves(console, run)
    show_comparison(console, run)
    lost = f", {record.lost_episodes} of them lost" if record.lost_episodes else ""
    console.print(
        f"finished at step {record.global_step} after {record.seconds:.0f} s and {record.episodes} episodes{lost}\n"
        f"model    {record.model_dir}\nepisodes {run.episodes_file}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
