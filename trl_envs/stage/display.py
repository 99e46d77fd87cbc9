"""What a run tells whoever shows it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from trl_envs.plan.launch_plan import LaunchPlan
from trl_envs.preflight.findings import Report
from trl_envs.results.rundir import RunDirectory
from trl_envs.results.signs import Sign


class Display(Protocol):
    """What a run shows as it goes; it decides nothing."""

    def planned(self, plan: LaunchPlan, run: RunDirectory) -> None:
        """The plan, before anything starts."""

    def server_awaited(self, name: str, what: str) -> None:
        """Something that takes long is being done for the servers of an environment."""

    def server_ready(self, name: str, urls: tuple[str, ...], seconds: float) -> None:
        """The servers of an environment answer."""

    def probing(self) -> None:
        """The probe begins, which takes some seconds."""

    def probed(self, report: Report) -> None:
        """What the probe measured, and its warnings."""

    def training(self, run: RunDirectory, plan: LaunchPlan) -> AbstractContextManager[Callable[[], None]]:
        """Around the training; gives what is to be called a few times a second."""

    def warned(self, sign: Sign) -> None:
        """The run shows a sign that it can't learn."""

    def reported(self, run: RunDirectory, problem: str) -> None:
        """The report of a run that has ended is written, or `problem` says why not."""

    def evaluating(self, run: RunDirectory, name: str, episodes: int) -> AbstractContextManager[Callable[[], None]]:
        """Around an evaluation of so many episodes; gives what is to be called a few times a second."""
