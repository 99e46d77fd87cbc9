"""The terminal's settings, which a child that is ended in the middle of a line of input may leave changed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def restored_terminal() -> Iterator[None]:
    """Gives the terminal on stdin back as it was; harmless where there is none."""
    try:
        import termios

        descriptor = sys.stdin.fileno()
        before = termios.tcgetattr(descriptor)
    except (ImportError, OSError, ValueError, AttributeError, termios.error):
        yield
        return
    try:
        yield
    finally:
        # The terminal itself may be gone.
        with suppress(OSError, termios.error):
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
