from __future__ import annotations

import time
from pathlib import Path

from trl_envs.runtime.logs import LINE_CHARACTERS, read_log_tail


def test_last_lines_without_blank_ones(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("one\n\ntwo\n   \nthree without an end")
    assert read_log_tail(log, 2) == ["two", "three without an end"]
    assert read_log_tail(log, 0) == []
    assert read_log_tail(log, start_byte=5) == ["two", "three without an end"]


def test_missing_and_empty(tmp_path: Path) -> None:
    (tmp_path / "empty.log").touch()
    assert read_log_tail(tmp_path / "missing.log") == read_log_tail(tmp_path / "empty.log") == []


def test_junk_colours_progress_bars_and_long_lines(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(
        b"\xff\xfe\x00junk\n"
        b"\x1b[31mred\x1b[0m \x1b]0;title\x07text\n"
        b" 10%|#  |\r 50%|## |\r100%|###|\r\n" + b"x" * 1000 + b"\n"
    )
    lines = read_log_tail(log)
    assert lines[:3] == ["\ufffd\ufffdjunk", "red text", "100%|###|"]
    assert len(lines[3]) == LINE_CHARACTERS and lines[3].endswith("...")


def test_a_huge_file_is_read_from_its_end(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    with log.open("wb") as file:
        file.truncate(20 * 1024**3)  # sparse
        file.seek(0, 2)
        file.write(b"\nthe end\n")
    started = time.monotonic()
    assert read_log_tail(log)[-1] == "the end"
    assert time.monotonic() - started < 1
