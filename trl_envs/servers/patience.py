"""Calls that may take long or for ever, made so that a signal is still heeded."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")

TICK_S = 0.1


class NoAnswerError(Exception):
    """A call took longer than it was given."""


def answer_of(call: Callable[[], Answer], timeout_s: float, check: Callable[[], None]) -> Answer:
    """What a call returns, or raises.

    A call that is given up goes on in its thread, which keeps nothing from ending.

    Args:
        call: Made in a thread of its own.
        timeout_s: Seconds to wait for it.
        check: Called every `TICK_S` meanwhile; raises to end the wait.

    Raises:
        NoAnswerError: It took longer.
    """
    results: list[Answer] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            results.append(call())
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="trl-env-hub", daemon=True)
    thread.start()
    for _ in range(max(1, round(timeout_s / TICK_S))):
        thread.join(TICK_S)
        check()
        if not thread.is_alive():
            break
    if errors:
        raise errors[0]
    if not results:
        raise NoAnswerError
    return results[0]
