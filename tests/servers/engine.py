"""A stand-in engine for tests: a folder with a program `docker`, and what it has been asked."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from tests.runtime.programs import is_running

ROOT = Path(__file__).parents[2]


class Engine:
    """The program `docker` in `folder/bin`, its state beside it.

    Attributes:
        variables: Environment variables with which it is found and works.
    """

    def __init__(self, folder: Path) -> None:
        self._state = folder / "engine"
        (self._state / "bin").mkdir(parents=True)
        program = self._state / "bin" / "docker"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m tests.servers.fake_docker "$@"\n')
        program.chmod(0o755)
        self.variables = {
            "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "FAKE_DOCKER": str(self._state),
        }

    def calls(self, command: str) -> list[list[str]]:
        file = self._state / "calls"
        lines = file.read_text().splitlines() if file.exists() else []
        return [call for call in map(json.loads, lines) if call[0] == command]

    def containers(self) -> list[str]:
        """Names of those that were made and not removed."""
        folder = self._state / "containers"
        return [path.name for path in folder.iterdir()] if folder.exists() else []

    def is_making(self) -> bool:
        """Whether it has been told to run a container."""
        return (self._state / "asked").exists()

    def removed(self) -> list[str]:
        return [path.name.removeprefix("removed-") for path in self._state.glob("removed-*")]

    def pids(self) -> list[int]:
        """Processes of all containers that ever were."""
        return [int(path.read_text()) for path in self._state.rglob("pid")]

    def break_down(self) -> None:
        (self._state / "down").touch()

    def shut_down(self) -> None:
        """Ends what a failed test left."""
        for pid in filter(is_running, self.pids()):
            os.kill(pid, signal.SIGKILL)

    def assert_nothing_is_left(self) -> None:
        assert self.containers() == []
        assert [pid for pid in self.pids() if is_running(pid)] == []
