"""Signals that are only recorded, so that no code is cut in the middle of starting or stopping a process."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class SignalRecorder:
    """While installed, SIGINT, SIGTERM and SIGHUP are recorded and do nothing else.

    Handlers can be installed from the main thread only; elsewhere `install` does nothing and nothing is ever recorded.
    A SIGHUP that is ignored already (nohup) stays ignored.

    Attributes:
        received: Signal numbers in order of arrival.
    """

    def __init__(self) -> None:
        self.received: list[int] = []
        self._previous: dict[signal.Signals, Any] = {}

    def install(self) -> None:
        """Takes over the signals."""
        if threading.current_thread() is not threading.main_thread():
            return
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signum == signal.SIGHUP and signal.getsignal(signum) == signal.SIG_IGN:
                continue
            self._previous[signum] = signal.signal(signum, self._record)

    def restore(self) -> None:
        """Gives the signals back to those who had them."""
        for signum, handler in self._previous.items():
            # None stands for a handler that wasn't installed from Python, which can't be put back from here.
            signal.signal(signum, signal.SIG_DFL if handler is None else handler)
        self._previous.clear()

    def _record(self, signum: int, frame: FrameType | None) -> None:
        self.received.append(signum)
