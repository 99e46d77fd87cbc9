"""The runs of an output directory."""

from __future__ import annotations

import platform
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from trl_envs.results.episodes import count_episodes
from trl_envs.results.metrics import read_metrics
from trl_envs.results.processes import process_identity
from trl_envs.results.record import RunRecord, read_record
from trl_envs.results.rundir import RunDirectory


@dataclass(frozen=True)
class RunSummary:
    """One run as it stands.

    Args:
        directory: Where it is.
        status: As recorded; `died` for a run whose launcher is gone without having recorded an outcome, `unknown` where
            the record can't be read.
        started_at: ISO 8601, UTC; when the directory was last changed if there is no record.
        record: What was recorded, if it can be read.
        problem: Why it can't.
    """

    directory: RunDirectory
    status: str
    started_at: str
    record: RunRecord | None = None
    problem: str = ""


def find_runs(output_dir: Path) -> list[RunSummary]:
    """The runs directly in a directory, the newest first; none if it doesn't exist."""
    if not output_dir.is_dir():
        return []
    directories = [RunDirectory(path) for path in output_dir.iterdir() if path.is_dir()]
    runs = [summarize_run(run) for run in directories if run.record_file.exists() or run.config_file.exists()]
    return sorted(runs, key=lambda run: (run.started_at, run.directory.name), reverse=True)


def summarize_run(directory: RunDirectory) -> RunSummary:
    """The state of one run."""
    record, problem = read_record(directory)
    if record is None:
        changed = datetime.fromtimestamp(directory.path.stat().st_mtime, UTC).isoformat(timespec="milliseconds")
        return RunSummary(directory, "unknown", changed, None, problem)
    if _is_dead(record):
        return RunSummary(directory, "died", record.started_at, _left_by(directory, record))
    return RunSummary(directory, record.status, record.started_at, record)


def _left_by(directory: RunDirectory, record: RunRecord) -> RunRecord:
    """The record as the launcher would have left it, had it come so far."""
    steps = [int(line["step"]) for line in read_metrics(directory.metrics_file) if "reward" in line]
    counts = count_episodes(directory.episodes_file)
    return replace(
        record,
        global_step=max([record.global_step, *steps]),
        episodes=counts.episodes,
        lost_episodes=counts.lost,
        message="its launcher was killed, or the machine went down",
    )


def _is_dead(record: RunRecord) -> bool:
    """Whether nobody will write the outcome any more; on a shared drive only the run's own machine can tell."""
    if record.status != "running" or record.host != platform.node():
        return False
    identity = process_identity(record.pid)
    return identity == "" or identity != record.process
