"""The report at a run's end: what it costs the launcher, and what becomes of one that can't be written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.recorded import bare_run, end_run
from tests.report.runs import evaluated_run
from trl_envs.config.store import load_config
from trl_envs.leaving import leave_report


def test_a_run_leaves_a_page_and_a_picture_and_one_that_was_interrupted_the_page_alone(tmp_path: Path) -> None:
    run = evaluated_run(tmp_path)
    assert leave_report(run, load_config(run.config_file), picture=False) == ""
    assert run.report_file.read_text().startswith("<!doctype html>")
    assert not run.curve_file.exists()
    assert leave_report(run, load_config(run.config_file), picture=True) == ""
    assert run.curve_file.read_bytes().startswith(b"\x89PNG")
    assert (run.logs_dir / "report.log").is_file()


def test_what_cannot_be_written_is_said_and_ends_nothing(tmp_path: Path) -> None:
    run = bare_run(tmp_path, "catch")
    end_run(run, "finished", 0)
    run.report_file.mkdir()
    assert leave_report(run, load_config(run.config_file), picture=False).startswith("report.html can't be written (")
    drawn = evaluated_run(tmp_path, name="drawn")
    drawn.curve_file.mkdir()
    problem = leave_report(drawn, load_config(drawn.config_file), picture=True)
    assert problem.startswith("curve.png can't be drawn: exit code 1, see ")
    assert "IsADirectoryError" in (drawn.logs_dir / "report.log").read_text()


def test_the_page_loads_nothing_heavy() -> None:
    code = "import sys, trl_envs.leaving; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & {"torch", "transformers", "trl", "openenv", "datasets", "pyspiel", "textarena", "matplotlib"}
    assert "jinja2" in loaded
