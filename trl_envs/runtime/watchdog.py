"""The launcher's end of the guard: starts it, names process groups to it, lets it go."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from trl_envs.errors import StartupError
from trl_envs.runtime.guard import IGNORED_SIGNALS

GUARD_FILE = Path(__file__).with_name("guard.py")
# The guard exits within milliseconds of the end of its input when it has nothing left to end.
EXIT_WAIT_S = 5.0


class Watchdog:
    """A running guard process (see guard.py).

    Only this process holds the write end of the pipe: Python's file descriptors aren't inherited by children, so the
    pipe closes when this process dies, however it dies.
    """

    def __init__(self) -> None:
        # The guard inherits the blocked signals, so none can end it before it has come to ignore them.
        unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, IGNORED_SIGNALS)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(GUARD_FILE)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
                bufsize=0,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)

    @property
    def pid(self) -> int:
        """Process id of the guard."""
        return self._process.pid

    def add(self, group: int, cleanup: Sequence[str] = ()) -> None:
        """Has the group ended if this process dies.

        Args:
            group: Process group id.
            cleanup: Command that is run once the group has ended; a short one.

        Raises:
            StartupError: The guard is gone, so that nothing would end the group.
        """
        try:
            self._write(f"add {group} {json.dumps(list(cleanup))}\n" if cleanup else f"add {group}\n")
        except BrokenPipeError as error:
            raise StartupError(
                f"the guard process that ends children with the launcher is gone (pid {self.pid})",
                "something killed it: look for the out-of-memory killer in the system's log, then start again",
            ) from error

    def remove(self, group: int) -> None:
        """Forgets a group that is gone; its id may soon belong to someone else."""
        # A guard that was killed ends nothing any more, so it has nothing to forget.
        with contextlib.suppress(BrokenPipeError):
            self._write(f"remove {group}\n")

    def close(self) -> None:
        """Ends the guard's input and waits for it; it ends what is still named."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(EXIT_WAIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        # Short enough to be atomic (PIPE_BUF), so the guard never sees half a line.
        self._process.stdin.write(line.encode())
