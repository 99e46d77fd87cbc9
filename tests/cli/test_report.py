"""`trl-env report`: where it writes, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.recorded import bare_run, end_run
from tests.report.runs import evaluated_run
from trl_envs.cli.app import app
from trl_envs.errors import ConfigError


def test_a_report_of_one_run_and_of_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first, second = evaluated_run(tmp_path, name="first"), bare_run(tmp_path, "echo", name="second")
    end_run(second, "failed", 1, "it broke")
    found = CliRunner().invoke(app, ["report", "first"], catch_exceptions=False)
    assert found.stdout.strip() == str(first.report_file)
    assert first.report_file.is_file() and first.curve_file.is_file()
    found = CliRunner().invoke(app, ["report", "first", "second"], catch_exceptions=False)
    assert found.stdout.strip() == str(first.path / "report-with-second.html")
    found = CliRunner().invoke(app, ["report", "second", "first", "--out", "here.html"], catch_exceptions=False)
    assert found.stdout.strip() == str(tmp_path / "here.html")
    assert "it broke" in (tmp_path / "here.html").read_text()


def test_what_is_no_run_or_no_place_is_refused(tmp_path: Path) -> None:
    run = bare_run(tmp_path, "echo")
    with pytest.raises(ConfigError, match="is no run directory"):
        CliRunner().invoke(app, ["report", str(tmp_path)], catch_exceptions=False)
    with pytest.raises(ConfigError, match="can't be written"):
        CliRunner().invoke(app, ["report", str(run.path), "--out", str(tmp_path / "no" / "x")], catch_exceptions=False)
