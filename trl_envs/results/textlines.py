"""Follows a log while it is written."""

from __future__ import annotations

from pathlib import Path


class TextTail:
    """The lines of a text file as they come.

    Args:
        path: The file, which need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""

    def new(self) -> list[str]:
        """Whole lines since the last call, without their ends; a carriage return starts a line anew."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._offset)
            chunk = file.read()
        self._offset += len(chunk)
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return [line.rpartition(b"\r")[2].decode("utf-8", errors="replace") for line in lines]
