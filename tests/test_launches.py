"""Launches as a person starts them, from the command line to their end."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cli.test_launches import pretend
from tests.whole_runs import TIMEOUT_S, assert_nothing_is_left, start, the_run

FAKE = Path(__file__).parent / "servers" / "fake_vllm.py"


@pytest.mark.slow
def test_a_vllm_server_of_another_kind_ends_the_run_before_the_trainer_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(tmp_path, monkeypatch, gpus=2)
    program = tmp_path / "vllm"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {FAKE} "$@"\n')
    program.chmod(0o755)
    for name, value in (("FAKE_VLLM", "old"), ("FAKE_VLLM_PIDS", str(tmp_path / "pids"))):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("tests.whole_runs.ROOTS", (str(tmp_path / "site"),))
    arguments = ("recipe=catch", "preset=smoke", "launch=server", f"launch.vllm_executable={program}")
    process = start(tmp_path, *arguments)
    _, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 3, err
    assert "it has no page /get_world_size" in err
    run = the_run(tmp_path)
    assert json.loads((run / "record.json").read_text())["exit_code"] == 3
    assert not (run / "metrics.jsonl").exists()
    assert_nothing_is_left(run)


@pytest.mark.slow
def test_two_runs_at_once_both_finish(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    processes = [start(folder, "recipe=catch", "preset=smoke") for folder in folders]
    ends = [process.communicate(timeout=2 * TIMEOUT_S) for process in processes]
    for process, folder, (_, err) in zip(processes, folders, ends, strict=True):
        assert process.returncode == 0, err
        assert json.loads((the_run(folder) / "record.json").read_text())["global_step"] == 2
        assert_nothing_is_left(the_run(folder))
