"""Whole runs that take longer: killed and resumed, swept, on servers that freeze or fail, with two environments."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from tests.whole_runs import assert_nothing_is_left, processes_of, run, signal_process, start, wait_for_training
from trl_envs.results.episodes import read_episodes
from trl_envs.results.metrics import read_metrics

pytestmark = pytest.mark.slow


def test_a_killed_run_goes_on_from_its_checkpoint_to_the_same_end(tmp_path: Path) -> None:
    numbers = ["recipe=catch", "preset=smoke", "grpo.max_steps=6", "grpo.save_strategy=steps", "grpo.save_steps=2"]
    process = start(tmp_path, *numbers, "run_name=cut")
    path = tmp_path / "runs" / "cut"
    try:
        deadline_s = time.monotonic() + 120
        while not (path / "checkpoint-2" / "trainer_state.json").exists():
            assert process.poll() is None and time.monotonic() < deadline_s
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=20)
    finally:
        process.kill()
    until_s = time.monotonic() + 5
    while processes_of(path) and time.monotonic() < until_s:
        time.sleep(0.1)
    assert_nothing_is_left(path)
    code, out, err = run(tmp_path, "--resume", "runs/cut", "--json")
    assert code == 0, err
    record = json.loads(out)
    assert (record["status"], record["global_step"], record["attempt"]) == ("finished", 6, 2)
    assert (path / "logs" / "trainer-2.log").is_file()
    assert (path / "overrides.txt").read_text().splitlines()[:2] == ["recipe=catch", "preset=smoke"]
    steps = [line["step"] for line in read_metrics(path / "metrics.jsonl") if "reward" in line]
    assert steps == [1, 2, 3, 4, 5, 6]
    # The prompts go on where they stopped: the seeds of both attempts together are those of a run in one go.
    code, _, err = run(tmp_path, *numbers, "run_name=whole")
    assert code == 0, err
    assert seeds_by_step(path, attempt=2) == {
        step: seeds for step, seeds in seeds_by_step(tmp_path / "runs" / "whole", attempt=1).items() if step > 2
    }
    code, _, err = run(tmp_path, "--resume", "runs/cut", "grpo.max_steps=3")
    assert code == 2
    assert "nothing left to train" in err
    code, _, err = run(tmp_path, "--resume", "runs/cut", "seed=3")
    assert code == 2
    assert "seed can't change" in err


def seeds_by_step(path: Path, attempt: int) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for episode in read_episodes(path / "episodes.jsonl"):
        if episode["attempt"] == attempt:
            found.setdefault(episode["step"], []).append(episode["seed"])
    return found


def test_a_sweep_runs_every_job_and_tells_them_apart(tmp_path: Path) -> None:
    code, out, err = run(
        tmp_path, "-m", "recipe=echo", "preset=smoke", "grpo.max_steps=1", "grpo.learning_rate=1e-6,1e-5", "--json"
    )
    assert code == 0, err
    outcomes = json.loads(out)
    assert [outcome["varied"] for outcome in outcomes] == ["grpo.learning_rate=1e-06", "grpo.learning_rate=1e-05"]
    folders = [Path(outcome["record"]["directory"]) for outcome in outcomes]
    assert len(set(folders)) == 2
    for folder, rate in zip(folders, ("1.0e-06", "1.0e-05"), strict=True):
        assert f"learning_rate: {rate}" in (folder / "config.yaml").read_text()
    assert "job 2 of 2: grpo.learning_rate=1e-05" in err


def test_a_sweep_with_a_wrong_job_starts_none_and_with_a_failing_one_runs_the_rest(tmp_path: Path) -> None:
    code, _, err = run(tmp_path, "-m", "recipe=echo", "preset=smoke", "seed=1,x")
    assert code == 2
    assert "seed" in err
    assert not (tmp_path / "runs").exists()
    jobs = [
        "-m",
        "recipe=echo",
        "preset=smoke",
        "grpo.max_steps=1",
        "envs.echo.app=no.such:app,trl_envs.envs.echo.server:app",
    ]
    code, out, err = run(tmp_path, *jobs, "--json")
    assert code == 1
    assert [outcome["exit_code"] for outcome in json.loads(out)] == [3, 0]
    assert "server-echo ended before it was ready" in err


@pytest.mark.parametrize(
    ("signum", "said"),
    [
        (signal.SIGSTOP, "the environment server of catch hangs"),
        (signal.SIGKILL, "server-catch ended while trainer needed it: killed by SIGKILL"),
    ],
)
def test_a_server_that_freezes_or_dies_is_named_and_nothing_is_left(tmp_path: Path, signum: int, said: str) -> None:
    process = start(
        tmp_path, "recipe=catch", "preset=smoke", "grpo.max_steps=1000", "run_name=ice", "server.heartbeat_timeout_s=4"
    )
    path = tmp_path / "runs" / "ice"
    try:
        wait_for_training(process, path)
        port = json.loads((path / "plan.json").read_text())["environments"]["catch"]["process"]["port"]
        signal_process(f"--port\0{port}".encode(), signum)
        _, err = process.communicate(timeout=40)
    finally:
        process.kill()
    assert process.returncode == 4, err
    assert said in err
    assert_nothing_is_left(path)


SOUR = """
defaults: [catch, _self_]
envs:
  catch: {app: "sour:app"}
"""
# Resets, takes one move, and fails every move after it.
SOUR_SERVER = """
from trl_envs.envs.catch.server import CatchAction, CatchObservation, CatchServer
from openenv.core.env_server.http_server import create_fastapi_app

class SourServer(CatchServer):
    def step(self, action, timeout_s=None, **kwargs):
        self.moves = getattr(self, "moves", 0) + 1
        if self.moves > 1:
            raise RuntimeError("the board is gone")
        return super().step(action, timeout_s=timeout_s, **kwargs)

app = create_fastapi_app(SourServer, CatchAction, CatchObservation, max_concurrent_envs=32)
"""


def test_a_server_whose_steps_fail_never_gives_a_finished_run(tmp_path: Path) -> None:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "sour.yaml").write_text(SOUR)
    (tmp_path / "sour.py").write_text(SOUR_SERVER)
    code, _, err = run(tmp_path, "recipe=sour", "preset=smoke", "run_name=sour")
    assert code != 0
    assert "the board is gone" in err
    assert json.loads((tmp_path / "runs" / "sour" / "record.json").read_text())["status"] == "failed"


TERMS = {"catch": {"catch.caught"}, "wordle": {"wordle.win", "wordle.partial", "wordle.invalid"}}
TOOLS = {"catch": {"move", "stay"}, "wordle": {"guess"}}


def test_two_environments_share_every_batch_and_never_tools_or_terms(tmp_path: Path) -> None:
    code, _, err = run(tmp_path, "recipe=multi_env", "preset=smoke", "run_name=both")
    assert code == 0, err
    path = tmp_path / "runs" / "both"
    terms = set.union(*TERMS.values())
    for line in (line for line in read_metrics(path / "metrics.jsonl") if "reward" in line):
        assert {f"rewards/{term}/mean" for term in terms} <= line.keys()
    counts: dict[tuple[int, str], int] = {}
    for episode in read_episodes(path / "episodes.jsonl"):
        key = (episode["step"], episode["environment"])
        counts[key] = counts.get(key, 0) + 1
        assert episode["events"]
        assert {event["tool"] for event in episode["events"]} <= TOOLS[episode["environment"]]
        assert set(episode["rewards"]) == TERMS[episode["environment"]]
    assert counts == {(step, name): 4 for step in (1, 2) for name in ("wordle", "catch")}
    for file in (path / "completions").glob("*.parquet"):
        for row in parquet.read_table(file).to_pylist():
            environment = "wordle" if "Wordle" in row["prompt"][-1]["content"] else "catch"
            assert {name for name in terms if row[name] is not None and row[name] == row[name]} == TERMS[environment]
            calls = [call for message in row["completion"] for call in message.get("tool_calls") or ()]
            assert calls and {call["function"]["name"] for call in calls} <= TOOLS[environment]
