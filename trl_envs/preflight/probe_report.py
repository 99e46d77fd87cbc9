"""Where the checks of the probe put what they find, as they find it."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trl_envs.errors import TrlEnvError
from trl_envs.preflight.findings import Finding, Level, Report
from trl_envs.preflight.live import write_report


class Collector:
    """Findings and figures so far, and what is being done now. Safe to use from several threads.

    Args:
        deadline_s: Seconds for all checks together.
    """

    def __init__(self, deadline_s: float) -> None:
        self._lock = threading.Lock()
        self._report = Report()
        self._doing: list[str] = []
        self._emitted = False
        self._started_s = time.monotonic()
        self.deadline_s = deadline_s

    def add(self, level: Level, key: str, message: str, hint: str) -> None:
        """Notes a finding; the same one is noted once."""
        finding = Finding(level, key, message, hint)
        with self._lock:
            if finding not in self._report.findings:
                self._report.findings.append(finding)

    def error(self, key: str, message: str, hint: str) -> None:
        """Notes what keeps the run from starting."""
        self.add("error", key, message, hint)

    def warning(self, key: str, message: str, hint: str) -> None:
        """Notes what may not be what was wanted."""
        self.add("warning", key, message, hint)

    def refused(self, key: str, error: TrlEnvError) -> None:
        """Notes an error that trl-env itself raised."""
        self.error(key, error.message, error.hint)

    def foreign(self, key: str, what: str, error: BaseException) -> None:
        """Notes an exception out of somebody else's code; its traceback goes to stderr, which is the probe's log."""
        traceback.print_exception(error)
        frames = traceback.extract_tb(error.__traceback__)
        where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "an unknown place"
        if isinstance(error, SyntaxError) and error.filename:
            where = f"{error.filename}:{error.lineno}"
        self.error(key, f"{what}: {type(error).__name__}: {error}", f"mend {where}, where it was raised")

    @contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """Names what happens inside, for a deadline that passes meanwhile; its seconds become a figure."""
        started_s = time.monotonic()
        with self._lock:
            self._doing.append(what)
        try:
            yield
        finally:
            with self._lock:
                self._doing.remove(what)
                self._report.figures.setdefault("seconds", {})[what] = round(time.monotonic() - started_s, 2)

    def figure(self, name: str, value: Any) -> None:
        """Notes a JSON-able measurement."""
        with self._lock:
            self._report.figures[name] = value

    def emit(self, run_dir: Path, stdout_fd: int) -> None:
        """Leaves the report in the run directory and prints it as one JSON document; the first call counts."""
        with self._lock:
            if self._emitted:
                return
            self._emitted = True
            self._report.figures.setdefault("seconds", {})["all"] = round(time.monotonic() - self._started_s, 2)
            write_report(run_dir, self._report)
            os.write(stdout_fd, (json.dumps(self._report.as_dict(), indent=2) + "\n").encode())

    def end_at_deadline(self, run_dir: Path, stdout_fd: int) -> None:
        """From now on: if the deadline passes, the process ends with what was found until then."""
        threading.Thread(target=self._watch, args=(run_dir, stdout_fd), daemon=True, name="deadline").start()

    def _watch(self, run_dir: Path, stdout_fd: int) -> None:
        time.sleep(max(0.0, self._started_s + self.deadline_s - time.monotonic()))
        with self._lock:
            doing = self._doing[-1] if self._doing else "starting"
        self.error(
            "rollout.call_timeout_s",
            f"the probe wasn't done after {self.deadline_s:g} s; it was still busy with: {doing}",
            "look at the environment server's log; lower rollout.call_timeout_s to find out sooner",
        )
        self.emit(run_dir, stdout_fd)
        sys.stderr.flush()
        # What hangs would keep an orderly end waiting; the sessions' sockets close with the process.
        os._exit(0)
