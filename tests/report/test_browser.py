"""The report in a real browser, where there is one: opened from disk, without a console message or a request."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.recorded import recorded_run
from tests.report.browser import CHROMIUM, tab
from tests.report.runs import evaluated_run, hostile_run
from trl_envs.report.contents import read_contents
from trl_envs.report.page import write_page

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no Chromium here: apt-get install chromium")

BROKEN = """<!doctype html><title>broken</title><img src="missing.png">
<script>console.log("said"); throw new Error("thrown")</script>"""


def test_the_browser_tells_of_errors_messages_and_missing_files(tmp_path: Path) -> None:
    page = tmp_path / "broken.html"
    page.write_text(BROKEN)
    with tab(tmp_path / "profile") as opened:
        opened.open(page)
    told = "\n".join(opened.problems)
    assert "thrown" in told and "said" in told and "request failed: net::ERR_FILE_NOT_FOUND" in told


def test_reports_open_without_a_request_or_a_console_message(tmp_path: Path) -> None:
    page = tmp_path / "two.html"
    write_page([read_contents(run) for run in (evaluated_run(tmp_path), recorded_run(tmp_path, "multi_env"))], page)
    with tab(tmp_path / "profile") as opened:
        opened.open(page)
        charts = opened.value("document.querySelectorAll('svg.chart').length")
        # The script: the value under the pointer is said beside the title.
        opened.value(
            "{ const chart = document.querySelector('svg.chart'), box = chart.getBoundingClientRect();"
            " chart.dispatchEvent(new PointerEvent('pointermove', {clientX: box.right})) }"
        )
        said = opened.value("document.querySelector('figure .said').textContent")
        opened.value("document.querySelector('svg.chart').dispatchEvent(new PointerEvent('pointerleave'))")
        wide = opened.value("document.documentElement.scrollWidth - window.innerWidth")
    assert opened.problems == []
    assert [address for address in opened.requests if not address.startswith("data:")] == [page.as_uri()]
    assert charts > 15
    assert said.startswith("step 30: ") and "step 2: " in said
    assert wide <= 0


def test_nothing_that_a_model_writes_runs(tmp_path: Path) -> None:
    page = tmp_path / "hostile.html"
    write_page([read_contents(hostile_run(tmp_path))], page)
    with tab(tmp_path / "profile") as opened:
        opened.open(page)
        title, pictures = opened.value("document.title"), opened.value("document.images.length")
    assert opened.problems == []
    assert (title, pictures) == ("hostile - trl-env", 0)
