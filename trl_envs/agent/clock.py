"""Seconds that a run spends on environments, and what their calls cost."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

Kind = Literal["reset", "tools"]


@dataclass(frozen=True)
class EnvironmentTimes:
    """What environments cost since the clock was last read.

    Args:
        reset_s: Seconds waited for resets.
        tools_s: Seconds waited for tool calls.
        calls: Resets and tool calls made.
        slowest_s: Seconds of the slowest of them.
    """

    reset_s: float
    tools_s: float
    calls: int
    slowest_s: float

    @property
    def waited_s(self) -> float:
        """Seconds waited in all."""
        return self.reset_s + self.tools_s


class EnvironmentClock:
    """Counts the time for which somebody waits for environments, once however many calls are under way."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting = 0
        self._since_s = 0.0
        self._kind: Kind = "tools"
        self._waited_s: dict[Kind, float] = {"reset": 0.0, "tools": 0.0}
        self._calls = 0
        self._slowest_s = 0.0

    @property
    def waited_s(self) -> float:
        """Seconds waited since the last `take`, those of a wait that isn't over left out."""
        return sum(self._waited_s.values())

    @contextmanager
    def waiting(self, kind: Kind) -> Iterator[None]:
        """Around whatever keeps a trainer from going on; from any thread."""
        with self._lock:
            self._waiting += 1
            if self._waiting == 1:
                self._since_s, self._kind = time.perf_counter(), kind
        try:
            yield
        finally:
            with self._lock:
                self._waiting -= 1
                if not self._waiting:
                    self._waited_s[self._kind] += time.perf_counter() - self._since_s

    @contextmanager
    def calling(self) -> Iterator[None]:
        """Around one reset or tool call; from any thread."""
        started_s = time.perf_counter()
        try:
            yield
        finally:
            seconds = time.perf_counter() - started_s
            with self._lock:
                self._calls += 1
                self._slowest_s = max(self._slowest_s, seconds)

    def take(self) -> EnvironmentTimes:
        """Reads the clock and sets it back to zero."""
        with self._lock:
            times = EnvironmentTimes(self._waited_s["reset"], self._waited_s["tools"], self._calls, self._slowest_s)
            self._waited_s = {"reset": 0.0, "tools": 0.0}
            self._calls, self._slowest_s = 0, 0.0
        return times
