"""The report in a real browser, where there is one: opened from disk, without a console message or a request."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.recorded import recorded_run
from tests.report.runs import evaluated_run, hostile_run
from trl_envs.report.page import write_page

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), ""
)
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no Chromium here: apt-get install chromium")

BROKEN = """<!doctype html><title>broken</title><img src="missing.png"><script>throw new Error("thrown")</script>"""


def opened(page: Path, folder: Path) -> tuple[str, list[str]]:
    """The page as the browser has it after its script ran, and what it wrote to the console."""
    done = subprocess.run(
        [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
         "--disable-component-update", f"--user-data-dir={folder / 'profile'}", "--enable-logging=stderr", "--log-level=0",
         "--virtual-time-budget=2000", "--dump-dom", page.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    return done.stdout, re.findall(r":CONSOLE.*", done.stderr)


def test_the_browser_tells_of_errors_and_missing_files(tmp_path: Path) -> None:
    page = tmp_path / "broken.html"
    page.write_text(BROKEN)
    said = " ".join(opened(page, tmp_path)[1])
    assert "thrown" in said and ("Failed to load resource" in said or "ERR_FILE_NOT_FOUND" in said), said


def test_reports_open_without_a_failed_request_or_a_console_message(tmp_path: Path) -> None:
    runs = [evaluated_run(tmp_path), recorded_run(tmp_path, "multi_env")]
    page = tmp_path / "two.html"
    write_page(runs, page)
    dom, console = opened(page, tmp_path)
    assert console == []
    assert dom.count("<svg") > 20 and "Best and worst" in dom


def test_nothing_that_a_model_writes_runs(tmp_path: Path) -> None:
    page = tmp_path / "hostile.html"
    write_page([hostile_run(tmp_path)], page)
    dom, console = opened(page, tmp_path)
    assert console == []
    assert "<title>hostile - trl-env</title>" in dom
    assert "<img" not in dom
