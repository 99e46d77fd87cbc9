"""Children that load their libraries while the probe still works, and begin when they are told to."""

from __future__ import annotations

import time

from trl_envs.results.rundir import RunDirectory

HOLD = "--hold"
POLL_S = 0.05


def wait_for_go(run: RunDirectory) -> None:
    """Waits for `go_file`. There is no time limit: the launcher, which makes it, takes its children with it."""
    while not run.go_file.exists():
        time.sleep(POLL_S)
