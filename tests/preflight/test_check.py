"""`trl-env check` as a person types it, and what `train` does with a run that can't work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from tests.loopback import serving
from trl_envs import launch
from trl_envs.cli.display import TrainDisplay
from trl_envs.config.compose import compose
from trl_envs.errors import StartupError


def run(*arguments: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """The command in an empty folder, its temporary files in `folder/tmp`."""
    (folder / "tmp").mkdir(exist_ok=True)
    root = str(Path(__file__).parents[2])
    return subprocess.run(
        [sys.executable, "-m", "trl_envs", *arguments],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder / "tmp"), "PYTHONPATH": root, **variables},
    )


def left_in(folder: Path) -> list[str]:
    """What is there afterwards, but for the cache folder that torch makes wherever it is imported."""
    return sorted(path.name for path in folder.rglob("*") if not path.name.startswith(("tmp", "torchinductor_")))


def test_static_faults_are_all_told_and_nothing_is_left(tmp_path: Path) -> None:
    done = run("check", "recipe=catch", "grpo.loss_type=dapoo", "rollout.call_timeout_s=0", folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: 2 things can't work")
    assert "fix: did you mean grpo.loss_type=dapo?" in done.stderr
    assert "fix: set rollout.call_timeout_s=60" in done.stderr
    assert done.stdout == ""
    assert not left_in(tmp_path)


@pytest.mark.parametrize("command", [("train",), ("train", "--dry-run")])
def test_train_refuses_them_before_it_makes_anything(command: tuple[str, ...], tmp_path: Path) -> None:
    done = run(*command, "recipe=catch", "envs.catch.episodes=1", "preset=smoke", folder=tmp_path)
    assert done.returncode == 2
    assert "TRL would train no step" in done.stderr
    assert not left_in(tmp_path)


def test_json_has_the_findings_and_the_same_exit_code(tmp_path: Path) -> None:
    done = run("check", "recipe=catch", "grpo.top_p=2", "--json", folder=tmp_path)
    assert done.returncode == 2
    assert [finding["key"] for finding in json.loads(done.stdout)["findings"]] == ["grpo.top_p"]


def test_a_small_server_is_found_out_and_nothing_is_left(tmp_path: Path) -> None:
    with serving("catch", 2) as server:
        done = run("check", "recipe=catch", "preset=smoke", f"envs.catch.url={server.url}", folder=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "capacity catch: 8 sessions needed, 2 found" in done.stdout
    assert "MAX_CONCURRENT_ENVS=8" in done.stderr
    assert not left_in(tmp_path)


@pytest.mark.slow
def test_the_embedded_server_is_started_checked_and_stopped(tmp_path: Path) -> None:
    done = run("check", "recipe=catch", "preset=smoke", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "capacity catch: 8 sessions needed, 8 found" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("ok ")
    assert not left_in(tmp_path)


def test_a_probe_that_never_answers_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    # Sooner than any probe can have imported what it needs.
    monkeypatch.setattr("trl_envs.stage.probe_deadline_s", lambda rollout: 0.2)
    monkeypatch.setattr("trl_envs.stage.GRACE_S", 0.1)
    with serving("catch", 8) as server:
        composed = compose(["recipe=catch", "preset=smoke", f"envs.catch.url={server.url}"])
        with pytest.raises(StartupError, match=r"the probe gave no result within 0\.3 s") as caught:
            launch.check(composed, TrainDisplay(Console(stderr=True)))
    assert "train with the same words keeps the whole log" in caught.value.hint
    assert str(tmp_path) not in str(caught.value)
    assert not left_in(tmp_path)


@pytest.mark.slow
def test_a_run_that_the_probe_refuses_is_recorded_and_loads_no_weights(tmp_path: Path) -> None:
    with serving("catch", 2) as server:
        done = run(
            "train", "recipe=catch", "preset=smoke", f"envs.catch.url={server.url}", "run_name=r", folder=tmp_path
        )
    assert done.returncode == 2
    record = json.loads((tmp_path / "runs" / "r" / "record.json").read_text())
    assert (record["status"], record["exit_code"]) == ("failed", 2)
    assert "8 sessions needed at once, 2 found" in record["message"]
    logs = tmp_path / "runs" / "r" / "logs"
    assert {path.name for path in logs.iterdir()} == {"probe.log", "trainer.log"}
    # It had its libraries at most.
    assert "weights" not in (logs / "trainer.log").read_text()
    assert not (tmp_path / "runs" / "r" / "outcome.json").exists()


@pytest.mark.slow
def test_a_probe_that_crashes_ends_with_its_log(tmp_path: Path) -> None:
    (tmp_path / "crash.py").write_text("import os\nprint('about to crash', flush=True)\nos.abort()\n")
    with serving("catch", 8) as server:
        done = run(
            "check",
            "recipe=catch",
            "preset=smoke",
            f"envs.catch.url={server.url}",
            "envs.catch.environment={_target_: crash.Env}",
            folder=tmp_path,
        )
    assert done.returncode == 4
    assert "the probe ended before the run did: killed by SIGABRT" in done.stderr
    assert "about to crash" in done.stderr
