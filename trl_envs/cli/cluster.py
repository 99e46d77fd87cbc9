"""The jobs of a sweep on a cluster, or several at a time on this machine: submitted, waited for, gathered.

Each job is one `trl-env train --config FILE` with a run directory of its own. What came of it is read from there.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trl_envs.cli.outcomes import Job, JobOutcome, outcome_rows
from trl_envs.errors import Interrupted

if TYPE_CHECKING:
    from rich.console import Console

    from trl_envs.config.cluster import ClusterSettings

# Slurm's own answer is some seconds old; submitit asks it no more often than it must.
POLL_S = 1.0
# An interrupted job's own orderly stop.
CANCEL_TIMEOUT_S = 60.0


def run_command(command: list[str]) -> int:
    """Runs a job's command where the job runs; Ctrl-C reaches it.

    Args:
        command: Program and arguments.

    Returns:
        Its exit code.
    """
    process = subprocess.Popen(command)
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)


def run_on_cluster(
    console: Console, jobs: Sequence[Job], settings: ClusterSettings, folder: Path, *, all_sessions: bool
) -> list[JobOutcome]:
    """Submits all jobs and waits until each has ended, in whatever way.

    Args:
        console: Told of each job.
        jobs: With run names that nobody else uses.
        settings: Where they run.
        folder: For their config files, which the machines of the jobs must be able to read.
        all_sessions: As in `launch.train`.

    Raises:
        PreflightError: There is no such cluster here.
        Interrupted: Ctrl-C or a signal; the jobs were cancelled.
    """
    from trl_envs.config.cluster import make_executor
    from trl_envs.runtime.signals import SignalRecorder

    executor = make_executor(settings)
    commands = [_command(job, folder, all_sessions=all_sessions) for job in jobs]
    signals = SignalRecorder()
    signals.install()
    try:
        submitted = executor.map_array(run_command, commands)
        for job, handle in zip(jobs, submitted, strict=True):
            _say(console, f"job {job.number} of {len(jobs)}: {job.varied or 'as it is'} ({handle.job_id})")
        _say(console, f"logs     {submitted[0].paths.folder.parent}/JOB/JOB_0_log.out")
        _await(console, jobs, submitted, signals)
    except Interrupted:
        console.print(outcome_rows([_outcome(job, handle) for job, handle in zip(jobs, submitted, strict=True)]))
        raise
    finally:
        signals.restore()
    return [_outcome(job, handle) for job, handle in zip(jobs, submitted, strict=True)]


def _command(job: Job, folder: Path, *, all_sessions: bool) -> list[str]:
    from trl_envs.config.store import to_yaml

    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{job.run_name}.yaml"
    file.write_text(to_yaml(job.composed.config), encoding="utf-8")
    probe = ["--probe"] if all_sessions else []
    return [sys.executable, "-m", "trl_envs", "train", "--config", str(file), *probe]


def _await(console: Console, jobs: Sequence[Job], submitted: Sequence[Any], signals: Any) -> None:
    waiting = list(zip(jobs, submitted, strict=True))
    while waiting:
        if signals.received:
            _cancel(console, [handle for _, handle in waiting])
            raise Interrupted(signals.received[0])
        for job, handle in list(waiting):
            if handle.done():
                waiting.remove((job, handle))
                outcome = _outcome(job, handle)
                _say(console, f"job {job.number} of {len(jobs)}: {job.run_name} ended: {outcome.describe()}")
        time.sleep(POLL_S if waiting else 0)


def _cancel(console: Console, handles: Sequence[Any]) -> None:
    """Cancels jobs, and waits until they have stopped what they had started."""
    _say(console, f"cancelling {len(handles)} job(s)")
    for handle in handles:
        handle.cancel(check=False)
    give_up_at_s = time.monotonic() + CANCEL_TIMEOUT_S
    while any(not handle.done() for handle in handles) and time.monotonic() < give_up_at_s:
        time.sleep(POLL_S)


def _outcome(job: Job, handle: Any) -> JobOutcome:
    """What a job that is done left: the record of its run, or the reason why there is none."""
    from trl_envs.results.rundir import RunDirectory
    from trl_envs.results.runs import summarize_run

    run = RunDirectory(job.directory)
    summary = summarize_run(run) if job.directory.is_dir() else None
    record = summary.record if summary is not None else None
    if record is not None and record.status == "finished":
        return JobOutcome(job.run_name, job.varied, 0, "", record)
    if record is not None and record.exit_code is not None:
        return JobOutcome(job.run_name, job.varied, record.exit_code, record.message, None)
    code = _returned(handle)
    said = [line for line in (handle.stderr() or "").splitlines() if line.startswith("error: ")]
    message = said[-1].removeprefix("error: ") if said else f"the job ended as {handle.state}"
    return JobOutcome(job.run_name, job.varied, code or 1, f"{message}; its log is {handle.paths.stderr}", None)


def _returned(handle: Any) -> int:
    """The exit code that a job's command had; 1 for a job that never came so far."""
    import submitit

    try:
        return int(handle.result())
    except (submitit.core.utils.UncompletedJobError, submitit.core.utils.FailedJobError):
        # Killed, timed out, or never started.
        return 1


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
