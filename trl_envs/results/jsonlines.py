"""Files of one JSON object a line: appended to by whoever plays, read by whoever watches, whole lines only."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self


def json_ready(value: Any) -> Any:
    """The value with what JSON has: NaN and infinities become None, numbers of numpy and torch become Python's."""
    if isinstance(value, Mapping):
        return {str(key): json_ready(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_ready(entry) for entry in value]
    if isinstance(value, float):
        # float() also takes numpy.float64, which is a float, down to the plain one.
        return float(value) if math.isfinite(value) else None
    if hasattr(value, "item"):
        return json_ready(value.item())
    return value


class JsonLinesWriter:
    """Appends objects to a file, each at once and whole, so that a reader or a crash finds complete lines.

    Several processes may append to one file on a local disk: each line is a single write in append mode.

    Args:
        path: Created if missing. What a killed run left without a line's end is closed off.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("a+b", buffering=0)
        size_bytes = self._file.seek(0, 2)
        if size_bytes > 0:
            self._file.seek(size_bytes - 1)
            if self._file.read(1) != b"\n":
                self._file.write(b"\n")

    def write(self, entry: Mapping[str, Any]) -> None:
        """Appends one object.

        Raises:
            TypeError: A value isn't JSON-able, see `json_ready`.
        """
        line = json.dumps(json_ready(entry), ensure_ascii=False, allow_nan=False)
        # Half a surrogate pair, which a model may well produce, isn't UTF-8; its escape is valid JSON.
        self._file.write(line.encode("utf-8", errors="backslashreplace") + b"\n")

    def close(self) -> None:
        """Closes the file; harmless twice."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def parse_line(line: bytes) -> dict[str, Any] | None:
    """The object of one line; None for what was cut off by a crash."""
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None


def read_json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file in order; nothing of a missing one. Lines cut off by a crash are left out."""
    if not path.exists():
        return
    with path.open("rb") as lines:
        for line in lines:
            entry = parse_line(line)
            if entry is not None:
                yield entry


class JsonLinesTail:
    """Reads a file that is being written, each object once.

    Args:
        path: May not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position_bytes = 0

    def new(self) -> list[dict[str, Any]]:
        """The objects of the lines completed since the last call."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as lines:
            if lines.seek(0, 2) < self._position_bytes:
                # Someone emptied the file: what it holds now is new.
                self._position_bytes = 0
            lines.seek(self._position_bytes)
            whole = lines.read().rpartition(b"\n")[0]
        if not whole:
            return []
        self._position_bytes += len(whole) + 1
        entries = (parse_line(line) for line in whole.split(b"\n"))
        return [entry for entry in entries if entry is not None]
