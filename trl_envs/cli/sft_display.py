"""What a warm-up shows as it goes, and at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from trl_envs.plan.sft import SftPlan
    from trl_envs.results.record import RunRecord
    from trl_envs.results.rundir import RunDirectory


class WarmupDisplay:
    """Shows a warm-up on a console.

    Args:
        console: On stderr: stdout is for data.
    """

    def __init__(self, console: Console) -> None:
        self._console = console

    def planned(self, plan: SftPlan, run: RunDirectory) -> None:
        """The plan, before anything starts."""
        self._say(f"run      {run.path}")
        self._say(f"data     {plan.games} games, {plan.steps} steps on {plan.device}")

    @contextmanager
    def training(self, run: RunDirectory, plan: SftPlan) -> Iterator[Callable[[], None]]:
        """The trainer's output, and below it a line on how it goes."""
        from trl_envs.cli.progress import TrainingProgress
        from trl_envs.results.textlines import TextTail

        self._say("trainer  starting (importing torch and TRL takes a few seconds)")
        output = TextTail(run.logs_dir / f"{plan.trainer.name}.log")
        with TrainingProgress(self._console, run.metrics_file, plan.steps) as progress:

            def tick() -> None:
                for line in output.new():
                    self._say(line)
                progress.tick()

            yield tick

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def show_warmup(console: Console, record: RunRecord) -> None:
    """What came of a warm-up that finished."""
    from trl_envs.results.metrics import number_of, read_metrics

    losses = [line for line in read_metrics(Path(record.directory) / "metrics.jsonl") if "loss" in line]
    figures = []
    for key, word in (("loss", "loss"), ("mean_token_accuracy", "accuracy of the next token")):
        values = [value for line in losses if (value := number_of(line, key)) is not None]
        figures += [f"{word} {values[0]:.3f}, at the end {values[-1]:.3f}"] if values else []
    lines = [
        f"finished at step {record.global_step} after {record.seconds:.0f} s",
        *([f"learnt   {'; '.join(figures)}"] if figures else []),
        f"model    {record.model_dir}",
        f"go on    trl-env train recipe={record.recipe} model={record.directory}",
    ]
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
