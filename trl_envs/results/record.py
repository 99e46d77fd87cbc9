"""record.json: what came of a run, in one object that other programs can read."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, Literal, get_args

from trl_envs.results.jsonlines import json_ready
from trl_envs.results.processes import process_identity
from trl_envs.results.rundir import RunDirectory, write_whole

RunStatus = Literal["running", "finished", "failed", "interrupted"]
RunKind = Literal["grpo", "sft"]


@dataclass
class RunRecord:
    """A run and its outcome.

    Args:
        run_name: Name of the run directory.
        recipe: Name of the recipe.
        preset: Name of the preset.
        status: `running` until the launcher has written the outcome; see runs.py for one that never did.
        exit_code: The launcher's; None while it runs.
        message: Why it failed or stopped; empty for a run that finished.
        started_at: ISO 8601, UTC.
        ended_at: ISO 8601, UTC; None while it runs.
        seconds: From start to end.
        global_step: Optimizer steps done.
        versions: Of the packages that matter; None for one that isn't installed.
        final_metrics: The last logged line of training.
        episodes: Episodes played.
        lost_episodes: Episodes of these that couldn't be scored.
        model_dir: The final model, if there is one.
        evaluation: What playing before and after training found and the differences, as far as it came.
        signs: What was seen that keeps a run from learning: name, message and hint of each (see signs.py).
        pid: The launcher's process id.
        process: What tells the launcher from a later process with its id (see processes.py).
        host: The machine on which it ran.
        attempt: How often the run was started; 2 and more went on from a checkpoint.
        directory: The run directory.
        kind: `grpo`, or `sft` for a warm-up.
    """

    run_name: str
    recipe: str
    preset: str
    status: RunStatus
    started_at: str
    exit_code: int | None = None
    message: str = ""
    ended_at: str | None = None
    seconds: float | None = None
    global_step: int = 0
    versions: dict[str, str | None] = field(default_factory=dict)
    final_metrics: dict[str, Any] = field(default_factory=dict)
    episodes: int = 0
    lost_episodes: int = 0
    model_dir: str | None = None
    evaluation: dict[str, Any] = field(default_factory=dict)
    signs: list[dict[str, str]] = field(default_factory=list)
    pid: int = 0
    process: str = ""
    host: str = ""
    attempt: int = 1
    directory: str = ""
    kind: RunKind = "grpo"

    @classmethod
    def begin(
        cls,
        run: RunDirectory,
        recipe: str,
        preset: str,
        versions: Mapping[str, str | None],
        attempt: int = 1,
        kind: RunKind = "grpo",
    ) -> RunRecord:
        """An attempt at a run that this process launches now."""
        return cls(
            run.name,
            recipe,
            preset,
            status="running",
            started_at=_timestamp(_now()),
            versions=dict(versions),
            pid=os.getpid(),
            process=process_identity(os.getpid()),
            host=platform.node(),
            attempt=attempt,
            directory=str(run.path),
            kind=kind,
        )

    def end(self, status: RunStatus, exit_code: int, message: str = "") -> None:
        """Notes how and when the run ended."""
        now = _now()
        self.status, self.exit_code, self.message = status, exit_code, message
        self.ended_at = _timestamp(now)
        self.seconds = round((now - datetime.fromisoformat(self.started_at)).total_seconds(), 3)


def write_record(directory: RunDirectory, record: RunRecord) -> None:
    """Writes record.json, whole or not at all."""
    write_whole(directory.record_file, json.dumps(json_ready(asdict(record)), indent=2, ensure_ascii=False) + "\n")


def read_record(directory: RunDirectory) -> tuple[RunRecord | None, str]:
    """The record of a run, or None and the reason why it can't be read."""
    path = directory.record_file
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None, f"{path} doesn't exist"
    except (OSError, ValueError) as error:
        return None, f"{path} can't be read: {error}"
    if not isinstance(data, dict):
        return None, f"{path} isn't a record: it holds no object"
    # A later version may write more; that is no reason to refuse what is known.
    known = {entry.name: data[entry.name] for entry in fields(RunRecord) if entry.name in data}
    try:
        record = RunRecord(**known)
        datetime.fromisoformat(record.started_at)
    except (TypeError, ValueError) as error:
        return None, f"{path} isn't a record: {error}"
    if record.status not in get_args(RunStatus):
        return None, f"{path} isn't a record: status is {record.status!r}"
    return record, ""


def _now() -> datetime:
    return datetime.now(UTC)


def _timestamp(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds")
