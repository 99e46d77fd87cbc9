"""The jobs of a sweep, and what came of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from trl_envs.config.compose import Composed
    from trl_envs.results.record import RunRecord


@dataclass(frozen=True)
class Job:
    """One run of a sweep.

    Args:
        number: From 1.
        varied: The overrides in which it differs from the other jobs.
        composed: Its config, with a run name.
    """

    number: int
    varied: str
    composed: Composed

    @property
    def run_name(self) -> str:
        """Name of its run directory."""
        return str(self.composed.config.run_name)

    @property
    def directory(self) -> Path:
        """Its run directory."""
        return Path(self.composed.config.output_dir).expanduser().absolute() / self.run_name


@dataclass(frozen=True)
class JobOutcome:
    """What came of one job.

    Args:
        run_name: Its run directory's name.
        varied: The overrides in which it differs from the other jobs.
        exit_code: As `trl-env train` alone would have ended.
        message: Why it failed; empty if it didn't.
        record: What it left; None if it failed.
    """

    run_name: str
    varied: str
    exit_code: int
    message: str
    record: RunRecord | None

    def describe(self) -> str:
        """In a few words."""
        return "finished" if self.record else f"exit {self.exit_code}: {self.message.splitlines()[0]}"


def outcome_rows(outcomes: Sequence[JobOutcome]) -> Table:
    """A table of all jobs."""
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
            Text(outcome.describe()),
            Text(str(record.global_step) if record else ""),
            Text(f"{reward:.3f}" if isinstance(reward, float) else ""),
        )
    return table
