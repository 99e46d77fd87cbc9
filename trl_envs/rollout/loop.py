"""One event loop, in one thread, for the connections of all sessions of the process.

openenv's own synchronous client starts a thread with a loop for each connection. Hundreds of them would do nothing but
wait.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class SharedLoop:
    """An event loop whose thread runs while somebody holds it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def hold(self) -> None:
        """Starts the thread for the first holder."""
        with self._lock:
            self._holders += 1
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="trl-env-sessions", daemon=True)
                self._thread.start()

    def release(self) -> None:
        """Ends the thread with the last holder."""
        with self._lock:
            self._holders -= 1
            if self._holders or self._loop is None or self._thread is None:
                return
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on the loop, which the caller holds, and waits for its result."""
        assert self._loop is not None, "nobody holds the loop"
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


SESSIONS = SharedLoop()
