"""What a run shows of its evaluations and of its curve."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from trl_envs.cli.display import TrainDisplay
from trl_envs.results.comparison import comparison_table
from trl_envs.results.curves import build_curves
from trl_envs.results.evaluation import Evaluation, read_evaluation
from trl_envs.results.jsonlines import JsonLinesTail
from trl_envs.results.metrics import read_metrics
from trl_envs.results.rundir import RunDirectory
from trl_envs.results.terminal_curve import text_curve

# Lines an evaluation, about: enough to see that it goes on.
LINES = 5


class EvaluationProgress:
    """Counts the episodes of an evaluation as they are written, and says so every now and then.

    Args:
        say: Shows a line.
        path: The episodes; may not exist yet.
        who: Who plays or when, such as `before training`.
        episodes: How many there will be.
    """

    def __init__(self, say: Callable[[str], None], path: Path, who: str, episodes: int) -> None:
        self._say = say
        self._tail = JsonLinesTail(path)
        self._who = who
        self._episodes = episodes
        self._played = 0
        self._said = 0
        say(f"eval     {who}: starting, {episodes} episodes")

    def tick(self) -> None:
        """Looks what is new; to be called a few times a second."""
        self._played += len(self._tail.new())
        enough = self._played - self._said >= self._episodes / LINES
        if enough or (self._played >= self._episodes and self._said < self._played):
            self._said = self._played
            self._say(f"eval     {self._who}: {self._played}/{self._episodes} episodes")


class ContestProgress(TrainDisplay):
    """Shows several evaluations on a console: their servers as a run's, then how far each player is."""

    @contextmanager
    def evaluating(self, run: RunDirectory, name: str, episodes: int) -> Iterator[Callable[[], None]]:
        """Lines on how far a player is."""
        yield EvaluationProgress(self._say, run.eval_dir / f"{name}.jsonl", name, episodes).tick


def show_comparison(console: Console, run: RunDirectory) -> None:
    """The table of before and after, if the run has both."""
    before, after = read_evaluation(run, "before"), read_evaluation(run, "after")
    if isinstance(before, Evaluation) and isinstance(after, Evaluation):
        console.print(comparison_table(before, after))


def show_curves(console: Console, run: RunDirectory) -> None:
    """The curves of a run that is long enough to have any, and where their picture is."""
    curves = build_curves(read_metrics(run.metrics_file))
    for curve in curves:
        console.print(text_curve(curve, console.encoding), markup=False, highlight=False, soft_wrap=True)
    if curves:
        console.print(f"curve    {run.curve_file}", markup=False, highlight=False, soft_wrap=True)
