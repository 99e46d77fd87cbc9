"""A batch of 256 rollouts against one embedded server, and what it leaves in the process."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path

import pytest

from benchmarks.rollout_latency import Side, catch_server
from trl_envs.rollout.concurrent import ConcurrentCalls

ROLLOUTS = 256
pytestmark = pytest.mark.slow


def sockets() -> int:
    found = 0
    for link in Path("/proc/self/fd").iterdir():
        # The descriptor of this listing itself is gone by then.
        with contextlib.suppress(FileNotFoundError):
            found += str(link.readlink()).startswith("socket:")
    return found


def test_256_rollouts_work_and_leave_no_thread_and_no_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    with catch_server(ROLLOUTS, delay_s=0.0) as url:
        side = Side(url, ROLLOUTS, turns=2, calls=ConcurrentCalls(ROLLOUTS), folder=str(tmp_path))
        threads, before = threading.active_count(), sockets()
        with socket.socket():
            assert sockets() == before + 1
        side.play()
        assert len(side.trainer.environments) == ROLLOUTS
        assert all(len(one.episode.events) == 2 and one.episode.lost is None for one in side.trainer.environments)
        assert threading.active_count() == threads
        assert sockets() == before
