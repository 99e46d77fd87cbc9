"""The end of a log, for people: whatever was written, however much."""

from __future__ import annotations

import re
from pathlib import Path

TAIL_BYTES = 64 * 1024
LINE_CHARACTERS = 400

# ECMA-48: CSI sequences (colours, cursor), OSC sequences (titles), and two-character escapes.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def read_log_tail(path: Path, lines: int = 15, start_byte: int = 0) -> list[str]:
    """The last lines of a log, without blank ones.

    At most the last `TAIL_BYTES` bytes are read, so the size of the file doesn't matter. Bytes that aren't UTF-8,
    colours and control characters are replaced or removed; of a line redrawn with carriage returns (a progress bar)
    the last state counts; long lines are cut at `LINE_CHARACTERS`.

    Args:
        path: The log; one that doesn't exist has no lines.
        lines: How many lines at most.
        start_byte: Where to begin in the file: what an earlier process wrote before it is left out.
    """
    if not path.exists():
        return []
    with path.open("rb") as log:
        size_bytes = log.seek(0, 2)
        log.seek(max(start_byte, size_bytes - TAIL_BYTES))
        text = log.read().decode("utf-8", errors="replace")
    shown = (_printable(line) for line in text.split("\n"))
    return [line for line in shown if line][-lines:] if lines > 0 else []


def _printable(line: str) -> str:
    states = [_CONTROL.sub("", state).rstrip() for state in _ESCAPES.sub("", line).split("\r")]
    last = next((state for state in reversed(states) if state), "")
    return last if len(last) <= LINE_CHARACTERS else last[: LINE_CHARACTERS - 3] + "..."
