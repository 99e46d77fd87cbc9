"""What a run shows on a terminal as it goes, and at its end."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from trl_envs.cli.findings import figure_lines, warning_lines

if TYPE_CHECKING:
    from rich.console import Console

    from trl_envs.plan.launch_plan import LaunchPlan
    from trl_envs.preflight.findings import Report
    from trl_envs.results.record import RunRecord
    from trl_envs.results.rundir import RunDirectory
    from trl_envs.results.signs import Sign


def run_console() -> Console:
    """A console on stderr that falls silent when nobody reads it any more: a run goes on without being watched."""
    from rich.console import Console

    class RunConsole(Console):
        def on_broken_pipe(self) -> None:
            self.quiet = True
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)

    return RunConsole(stderr=True)


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

        if "trackio" in plan.report_to:
            self._say(f"watch    trackio show --project {shlex.quote(plan.project)}")

    def server_awaited(self, name: str, what: str) -> None:
        """Something that takes long is being done for the servers of an environment."""
        self._say(f"server   {name}: {what}")

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

        yield EvaluationProgress(self._say, run.eval_dir / f"{name}.jsonl", f"{name} training", episodes).tick

    def warned(self, sign: Sign) -> None:
        """The run shows a sign that it can't learn."""
        self._say(f"warning: {sign.message}\n         try: {sign.hint}")

    def reported(self, run: RunDirectory, problem: str) -> None:
        """Where the report is."""
        self._say(f"warning: the report isn't whole: {problem}" if problem else f"report   {run.report_file}")

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def show_outcome(console: Console, record: RunRecord) -> None:
    """What came of a run that finished: its metrics, curve and evaluations, and where things are."""
    from trl_envs.cli.evaluation import show_comparison, show_curves
    from trl_envs.results.metrics import read_metrics
    from trl_envs.results.rundir import RunDirectory
    from trl_envs.results.tables import outcome_table

    run = RunDirectory(Path(record.directory))
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
