"""How far collecting is, and what came of it."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

from trl_envs.cli.display import TrainDisplay
from trl_envs.results.jsonlines import JsonLinesTail

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from trl_envs.results.collection import Collection, Gathered
    from trl_envs.results.statistics import Estimate

# Lines while everything is played, about, where no bar can be drawn.
LINES = 10


class CollectProgress(TrainDisplay):
    """Shows collecting on a console: its servers as a run's, then a bar on a terminal, elsewhere lines.

    Args:
        console: On stderr: stdout is for data.
        player: Who plays.
        total: Episodes that there will be.
    """

    def __init__(self, console: Console, player: str, total: int) -> None:
        super().__init__(console)
        self._player = player
        self._total = total
        self._tail: JsonLinesTail | None = None
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._played = self._said = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def collecting(self, collection: Collection) -> None:
        """Called a few times a second while the child plays."""
        if self._tail is None:
            self._tail = JsonLinesTail(collection.played_file)
            self._begin()
        new = self._tail.new()
        self._played += len(new)
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=self._played, refresh=True)
        elif new and (self._played - self._said >= self._total / LINES or self._played >= self._total):
            self._said = self._played
            self._say(f"collect  {self._played}/{self._total} games")

    def _begin(self) -> None:
        if not self._console.is_terminal or self._console.is_dumb_terminal:
            self._say(f"collect  {self._total} games by {self._player}")
            return
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bar = Progress(
            *columns, console=self._console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
        )
        self._task = self._bar.add_task(f"collect  games by {self._player}", total=self._total)
        self._bar.start()


def outcome_lines(found: Gathered, collection: Collection, *, thoughts: bool) -> list[str]:
    """What came of a collection.

    Args:
        found: Its figures.
        collection: Where it is.
        thoughts: Whether reasoning was asked for in so many words.
    """
    least = "" if found.min_reward is None else f", {found.below} below the reward {found.min_reward:g}"
    cut = f", {found.cut_off} cut off" if found.cut_off else ""
    lines = [
        f"played   {found.played} games, reward {_mean(found.reward)}",
        f"kept     {found.kept} games, reward {_mean(found.kept_reward)}{least}{cut}",
    ]
    if found.thoughts:
        lines.append(f"thoughts {found.thoughts} turns with a reasoning before the call")
    elif thoughts:
        lines.append("thoughts none: this player gives no reasons")
    return [*lines, f"games    {collection.games_file}"]


def _mean(value: Estimate) -> str:
    if value.mean is None:
        return "unscored"
    interval = "" if value.low is None else f" (95 % interval {value.low:.3f} to {value.high:.3f})"
    return f"{value.mean:.3f}{interval}"
