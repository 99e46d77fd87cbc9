from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from trl_envs.errors import ConfigError, ProcessExited
from trl_envs.results.rundir import RunDirectory, passing_run, write_whole

ROOT = Path(__file__).parents[2]


def test_the_layout(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "deep" / "runs", "catch")
    assert run.path == tmp_path / "deep" / "runs" / "catch" and run.path.is_dir()
    assert run.name == "catch"
    files = [
        run.config_file,
        run.overrides_file,
        run.plan_file,
        run.metrics_file,
        run.episodes_file,
        run.record_file,
        run.outcome_file,
    ]
    folders = [run.logs_dir, run.completions_dir, run.model_dir]
    assert [path.relative_to(run.path).as_posix() for path in files + folders] == [
        "config.yaml", "overrides.txt", "plan.json", "metrics.jsonl", "episodes.jsonl", "record.json", "outcome.json",
        "logs", "completions", "model",
    ]  # fmt: skip


def test_an_existing_run_is_never_shared(tmp_path: Path) -> None:
    names = [RunDirectory.create(tmp_path, "catch").name for _ in range(12)]
    assert names == ["catch", *(f"catch-{number}" for number in range(2, 13))]


def test_processes_that_create_the_same_run_at_once_get_one_each(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from trl_envs.results.rundir import RunDirectory\n"
        "sys.stdin.readline()\n"
        "for _ in range(50): print(RunDirectory.create(Path(sys.argv[1]), 'catch').name)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "runs")]
    pair = [
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    for process in pair:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    names = [name for process in pair for name in process.communicate(timeout=30)[0].split()]
    assert len(names) == 100
    assert set(names) == {"catch", *(f"catch-{number}" for number in range(2, 101))}


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/tmp/x", "a\0b", "x" * 300])
def test_names_that_cannot_be_a_directory(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="run_name=") as caught:
        RunDirectory.create(tmp_path, name)
    assert str(tmp_path) in caught.value.message
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"file.*output_dir=.*file"):
        RunDirectory.create(tmp_path / "file", "catch")
    with pytest.raises(ConfigError, match="output_dir="):
        RunDirectory.create(tmp_path / "file" / "below", "catch")
    with pytest.raises(ConfigError, match="run_name=file"):
        RunDirectory.create(tmp_path, "file")


@pytest.mark.skipif(os.geteuid() == 0 and not Path("/proc/self").exists(), reason="root may write anywhere")
def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    place = tmp_path / "closed"
    place.mkdir()
    place.chmod(0o500)
    # Root ignores the permissions of files, but not that /proc takes no directories.
    place = Path("/proc") if os.geteuid() == 0 else place
    with pytest.raises(ConfigError, match=f"{place}.*output_dir={place}"):
        RunDirectory.create(place, "catch")


def test_checkpoints_are_sorted_by_number(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    for name in ["checkpoint-100", "checkpoint-20", "checkpoint-3", "checkpoint-x", "checkpoint-5-old", "model"]:
        (tmp_path / name).mkdir()
    (tmp_path / "checkpoint-7").touch()
    assert [path.name for path in run.checkpoints()] == ["checkpoint-3", "checkpoint-20", "checkpoint-100"]
    assert RunDirectory(tmp_path / "missing").checkpoints() == []
    assert run.last_checkpoint() is None
    for step in (3, 20):
        (tmp_path / f"checkpoint-{step}" / "trainer_state.json").write_text("{}")
    # checkpoint-100 was cut off while it was written.
    assert run.last_checkpoint() == tmp_path / "checkpoint-20"


def test_files_are_written_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunDirectory(tmp_path)
    run.write_config("prompt: ü\n")
    run.add_overrides(["recipe=catch"])
    run.add_overrides(["grpo.max_steps=2"])
    run.write_plan({"processes": [{"port": 1, "value": float("nan")}]})
    assert run.config_file.read_text(encoding="utf-8") == "prompt: ü\n"
    assert run.overrides_file.read_text() == "recipe=catch\ngrpo.max_steps=2\n"
    assert json.loads(run.plan_file.read_text()) == {"processes": [{"port": 1, "value": None}]}

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_whole(run.config_file, "half")
    assert run.config_file.read_text(encoding="utf-8") == "prompt: ü\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.yaml", "overrides.txt", "plan.json"]


def test_an_error_of_a_run_that_is_not_kept_names_no_file_that_is_gone() -> None:
    with pytest.raises(ProcessExited) as caught, passing_run("check", "train keeps it") as run:
        log = run.logs_dir / "probe.log"
        raise ProcessExited(f"end of {log}:\n  KeyError", f"the whole log is {log}")
    assert (caught.value.message, caught.value.hint) == ("end of probe.log:\n  KeyError", "train keeps it")
    assert not run.path.exists()
    with pytest.raises(ProcessExited) as caught, passing_run("check", "train keeps it") as run:
        raise ProcessExited("gone", "start the server")
    assert caught.value.hint == "start the server"
