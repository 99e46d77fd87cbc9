from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.recorded import recorded_run
from trl_envs.results import processes
from trl_envs.results.processes import process_identity
from trl_envs.results.record import RunRecord, read_record, write_record
from trl_envs.results.rundir import RunDirectory
from trl_envs.results.runs import find_runs
from trl_envs.results.tables import run_causes


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory.create(tmp_path, "catch")


def begin(run: RunDirectory) -> RunRecord:
    """The record of a run of this process, written."""
    record = RunRecord.begin(run, "catch", "smoke", {"trl": "1.16.0", "vllm": None})
    write_record(run, record)
    return record


def test_a_run_that_has_started(run: RunDirectory) -> None:
    record = begin(run)
    assert read_record(run) == (record, "")
    assert (record.run_name, record.status, record.exit_code, record.ended_at) == ("catch", "running", None, None)
    started = datetime.fromisoformat(record.started_at)
    assert started.utcoffset() == timedelta(0) and abs(started - datetime.now(UTC)) < timedelta(seconds=10)


def test_a_run_that_has_ended(run: RunDirectory) -> None:
    record = begin(run)
    record.end("failed", 4, "the server died")
    record.final_metrics = {"reward": 0.5, "loss": float("nan")}
    write_record(run, record)
    assert read_record(run) == (replace(record, final_metrics={"reward": 0.5, "loss": None}), "")
    assert (record.status, record.exit_code, record.message) == ("failed", 4, "the server died")
    assert record.ended_at is not None and record.ended_at >= record.started_at
    assert record.seconds is not None and 0 <= record.seconds < 10


RECORD = {"run_name": "a", "recipe": "a", "preset": "a", "status": "running", "started_at": "2026-12-01T10:00:00+00:00"}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "doesn't exist"),
        (b"", "can't be read"),
        (b'{"run_name": "ca', "can't be read"),
        (b"\xff\xfe", "can't be read"),
        (b"[]", "holds no object"),
        (b"{}", "isn't a record"),
        (json.dumps({**RECORD, "status": "lost"}).encode(), "status is 'lost'"),
        (json.dumps({**RECORD, "started_at": 5}).encode(), "isn't a record"),
    ],
)
def test_a_record_that_cannot_be_read_is_none_with_a_reason(
    run: RunDirectory, content: bytes | None, reason: str
) -> None:
    if content is not None:
        run.record_file.write_bytes(content)
    record, problem = read_record(run)
    assert record is None
    assert reason in problem and str(run.record_file) in problem


def test_what_a_later_version_adds_is_passed_over(run: RunDirectory) -> None:
    run.record_file.write_text(json.dumps({**RECORD, "carbon_kg": 3}))
    assert read_record(run) == (RunRecord(**RECORD), "")  # type: ignore[arg-type]


def test_runs_are_listed_newest_first_with_their_state(tmp_path: Path) -> None:
    for number, (name, status) in enumerate([("b", "finished"), ("a", "interrupted"), ("c", "failed")]):
        run = RunDirectory.create(tmp_path, name)
        record = replace(begin(run), started_at=f"2026-01-0{number + 1}T00:00:00.000+00:00")
        record.end(status, 0)  # type: ignore[arg-type]
        write_record(run, record)
    begin(RunDirectory.create(tmp_path, "now"))
    (tmp_path / "no-run").mkdir()
    (tmp_path / "file").touch()
    time.sleep(0.01)
    RunDirectory.create(tmp_path, "broken").record_file.write_text("{")
    summaries = find_runs(tmp_path)
    assert [(run.directory.name, run.status) for run in summaries] == [
        ("broken", "unknown"),
        ("now", "running"),
        ("c", "failed"),
        ("a", "interrupted"),
        ("b", "finished"),
    ]
    assert summaries[0].problem and not summaries[1].problem
    assert find_runs(tmp_path / "missing") == []


def test_a_run_whose_launcher_is_gone_has_died(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path\n"
        "from trl_envs.results.record import RunRecord, write_record\n"
        "from trl_envs.results.rundir import RunDirectory\n"
        "run = RunDirectory.create(Path(sys.argv[1]), 'catch')\n"
        "write_record(run, RunRecord.begin(run, 'catch', 'full', {}))\n"
        "print('written', flush=True); time.sleep(30)"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"written\n"
        assert [run.status for run in find_runs(tmp_path)] == ["running"]
        process.kill()
        time.sleep(0.1)
        # A zombie by now, which runs no more than a process that is gone.
        assert [run.status for run in find_runs(tmp_path)] == ["died"]
    assert [run.status for run in find_runs(tmp_path)] == ["died"]


def test_another_process_with_the_same_id_is_not_the_launcher(run: RunDirectory) -> None:
    write_record(run, replace(begin(run), process="another boot:1"))
    assert [summary.status for summary in find_runs(run.path.parent)] == ["died"]
    write_record(run, replace(begin(run), process="", pid=0))
    assert [summary.status for summary in find_runs(run.path.parent)] == ["died"]


def test_a_run_whose_launcher_was_killed_says_how_far_it_came(tmp_path: Path) -> None:
    run = recorded_run(tmp_path, "catch")
    write_record(run, replace(begin(run), process="another boot:1"))
    (summary,) = find_runs(tmp_path)
    assert summary.record is not None
    assert (summary.status, summary.record.global_step, summary.record.episodes) == ("died", 2, 8)
    assert "its launcher was killed" in run_causes([summary])[0]


def test_only_the_own_machine_can_tell_that_a_run_has_died(run: RunDirectory) -> None:
    write_record(run, replace(begin(run), process="another boot:1", host="elsewhere"))
    assert [summary.status for summary in find_runs(run.path.parent)] == ["running"]


def test_the_identity_of_a_process_lasts_as_long_as_it() -> None:
    assert process_identity(os.getpid()) == process_identity(os.getpid()) != process_identity(1)
    assert process_identity(2**22 + 1) == ""


def test_the_identity_by_ps(monkeypatch: pytest.MonkeyPatch) -> None:
    """What macOS uses."""
    if not Path("/bin/ps").exists() and not Path("/usr/bin/ps").exists():
        pytest.skip("needs the program ps")
    monkeypatch.setattr(processes, "PROC", Path("/no/proc"))
    identity = process_identity(os.getpid())
    assert str(datetime.now(UTC).year) in identity
    assert process_identity(os.getpid()) == identity
    assert process_identity(2**22 + 1) == ""
