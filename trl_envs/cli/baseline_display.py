"""How far a baseline is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trl_envs.cli.display import TrainDisplay
from trl_envs.results.jsonlines import JsonLinesTail

if TYPE_CHECKING:
    from rich.console import Console

    from trl_envs.config.compose import Composed
    from trl_envs.results.rundir import RunDirectory

# Lines while each player of each environment plays, about.
LINES = 2


class BaselineProgress(TrainDisplay):
    """Shows a baseline on a console: its servers as a run's, then a line every now and then.

    Args:
        console: On stderr: stdout is for data.
        composed: The recipe.
        episodes: Of each player and environment.
        with_model: Whether a model plays.
    """

    def __init__(self, console: Console, composed: Composed, episodes: int, *, with_model: bool) -> None:
        super().__init__(console)
        players = "random play, the game's solver" + (f", {composed.config.model.path}" if with_model else "")
        self._what = f"{episodes} episodes each by {players}"
        self._step = max(1, episodes // LINES)
        self._tail: JsonLinesTail | None = None
        self._counts: dict[str, int] = {}

    def playing(self, run: RunDirectory) -> None:
        """Called a few times a second while the child plays."""
        if self._tail is None:
            self._say(f"baseline {self._what}, and some of doing nothing")
            self._tail = JsonLinesTail(run.episodes_file)
        for episode in self._tail.new():
            who = f"{episode.get('environment')} by {episode.get('mode')}"
            count = self._counts[who] = self._counts.get(who, 0) + 1
            if count % self._step == 0:
                self._say(f"baseline {who}: {count} episodes")
