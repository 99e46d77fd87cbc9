"""Whole runs of the command, as a person starts them: real servers, real training of the tiny agent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

from trl_envs.machine import port_is_free
from trl_envs.results.episodes import read_episodes
from trl_envs.results.metrics import read_metrics

TIMEOUT_S = 240


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "trl_envs", "train", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)},
    )


def run(folder: Path, *arguments: str) -> tuple[int, str, str]:
    process = start(folder, *arguments)
    try:
        out, err = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
    return process.returncode, out, err


def the_run(folder: Path) -> Path:
    [path] = (folder / "runs").iterdir()
    return path


def processes_of(path: Path) -> list[str]:
    """Command lines of living processes that name a run directory or a port of its plan."""
    plan = json.loads((path / "plan.json").read_text())
    marks = [str(path), *(f"--port {urls[0].rpartition(':')[2]}" for urls in urls_of(plan))]
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # ended meanwhile
            continue
        found += [line for mark in marks if mark in line]
    return found


def urls_of(plan: dict[str, Any]) -> list[list[str]]:
    return [env["urls"] for env in plan["environments"].values()]


def assert_nothing_is_left(path: Path) -> None:
    assert processes_of(path) == []
    for urls in urls_of(json.loads((path / "plan.json").read_text())):
        assert port_is_free("127.0.0.1", int(urls[0].rpartition(":")[2]))


@pytest.fixture(scope="module", params=["catch", "echo"])
def smoke(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path, str]]:
    """A finished smoke run: recipe, run directory, and what went to stdout."""
    folder = tmp_path_factory.mktemp(request.param)
    code, out, err = run(folder, f"recipe={request.param}", "preset=smoke", "--json")
    assert code == 0, err
    yield request.param, the_run(folder), out


def test_a_smoke_run_trains_and_leaves_a_record(smoke: tuple[str, Path, str]) -> None:
    recipe, path, out = smoke
    record = json.loads(out)
    assert record == json.loads((path / "record.json").read_text())
    assert (record["status"], record["exit_code"], record["global_step"]) == ("finished", 0, 2)
    assert (record["episodes"], record["lost_episodes"]) == (16, 0)
    assert record["versions"]["trl"].startswith("1.16")
    for name in ("config.yaml", "overrides.txt", "plan.json", "logs/trainer.log", f"logs/server-{recipe}.log"):
        assert (path / name).is_file(), name
    assert (path / "overrides.txt").read_text() == f"recipe={recipe}\npreset=smoke\n"
    assert (path / "model" / "model.safetensors").is_file()
    assert (path / "model" / "tokenizer.json").is_file()
    assert_nothing_is_left(path)


def test_metrics_name_every_term_and_the_tools_work(smoke: tuple[str, Path, str]) -> None:
    recipe, path, _ = smoke
    config = (path / "config.yaml").read_text()
    steps = [line for line in read_metrics(path / "metrics.jsonl") if "reward" in line]
    assert [line["step"] for line in steps] == [1, 2]
    terms = {"catch": ["caught"], "echo": ["length"]}[recipe]
    for line in steps:
        for term in terms:
            assert term in config
            assert isinstance(line[f"rewards/{recipe}.{term}/mean"], float)
        assert line["tools/call_frequency"] >= 1
        assert line["tools/failure_frequency"] < 0.05
        assert line["time/environment_s"] > 0
        assert line["time/generation_s"] > 0
        assert (line["episodes/played"], line["episodes/lost"]) == (8, 0)


def test_episodes_are_real_and_groups_play_the_same_one(smoke: tuple[str, Path, str]) -> None:
    recipe, path, _ = smoke
    episodes = list(read_episodes(path / "episodes.jsonl"))
    assert len(episodes) == 16
    groups: dict[tuple[int, int], set[int]] = {}
    for episode in episodes:
        assert episode["environment"] == recipe
        assert episode["events"], "an episode without a tool call"
        assert all(event["result"] or event["error"] for event in episode["events"])
        assert all(value is not None for value in episode["rewards"].values())
        groups.setdefault((episode["step"], episode["group"]), set()).add(episode["seed"])
    assert len(groups) == 4
    assert all(len(seeds) == 1 for seeds in groups.values())
    assert len({seed for seeds in groups.values() for seed in seeds}) == 4


def test_completions_show_calls_and_results(smoke: tuple[str, Path, str]) -> None:
    recipe, path, _ = smoke
    files = sorted((path / "completions").glob("*.parquet"))
    assert len(files) == 2
    rows = parquet.read_table(files[0]).to_pylist()
    assert len(rows) == 8
    names = {"catch": {"move", "stay"}, "echo": {"echo"}}[recipe]
    for row in rows:
        calls = [call for message in row["completion"] for call in message.get("tool_calls") or ()]
        assert calls and {call["function"]["name"] for call in calls} <= names
        assert any(message["role"] == "tool" and message["content"] for message in row["completion"])


MINE = """
defaults: [catch, _self_]
description: catch, with a bonus for standing still
envs:
  catch:
    environment: {_target_: my_env.MyCatch, greeting: Hello.}
    rewards:
      caught: {weight: 2.0}
      stillness: {_target_: my_env.stillness, weight: 0.5, bonus: 0.25}
"""
MY_ENV = """
from trl_envs.envs.catch import CatchEnv


class MyCatch(CatchEnv):
    def __init__(self, open_session, greeting):
        super().__init__(open_session)
        self.greeting = greeting

    def reset(self, **row):
        return f"{self.greeting}\\n{super().reset(**row)}"


def stillness(environments, bonus, **kwargs):
    return [bonus * sum(e.tool == "stay" for e in env.episode.events) for env in environments]
"""


def test_a_recipe_and_a_class_of_ones_own_from_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "mine.yaml").write_text(MINE)
    (tmp_path / "my_env.py").write_text(MY_ENV)
    code, _, err = run(tmp_path, "recipe=mine", "preset=smoke", "grpo.max_steps=1", "run_name=own")
    assert code == 0, err
    path = tmp_path / "runs" / "own"
    [line] = [line for line in read_metrics(path / "metrics.jsonl") if "reward" in line]
    assert {"rewards/catch.caught/mean", "rewards/catch.stillness/mean"} <= line.keys()
    for episode in read_episodes(path / "episodes.jsonl"):
        stays = sum(event["tool"] == "stay" for event in episode["events"])
        assert episode["rewards"]["catch.stillness"] == pytest.approx(0.25 * stays)
    prompt = parquet.read_table(path / "completions" / "completions_00001.parquet").to_pylist()[0]["prompt"]
    assert "Hello.\nBall:" in prompt[-1]["content"]


@pytest.mark.parametrize(
    ("signum", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)]
)
def test_a_signal_during_training_leaves_nothing_behind(tmp_path: Path, signum: int, code: int) -> None:
    process = start(tmp_path, "recipe=catch", "preset=smoke", "grpo.max_steps=1000", "run_name=long")
    path = tmp_path / "runs" / "long"
    try:
        deadline_s = time.monotonic() + 120
        while not (path / "metrics.jsonl").exists() or not read_metrics(path / "metrics.jsonl"):
            assert process.poll() is None and time.monotonic() < deadline_s
            time.sleep(0.2)
        assert len(processes_of(path)) == 2
        process.send_signal(signum)
        _, err = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == code, err
    assert_nothing_is_left(path)
    record = json.loads((path / "record.json").read_text())
    assert (record["status"], record["exit_code"]) == ("interrupted", code)
    assert record["global_step"] >= 1


def test_a_trainer_that_is_killed_ends_the_run_with_its_cause(tmp_path: Path) -> None:
    process = start(tmp_path, "recipe=catch", "preset=smoke", "grpo.max_steps=1000", "run_name=shot")
    path = tmp_path / "runs" / "shot"
    try:
        deadline_s = time.monotonic() + 60
        while not (path / "logs" / "trainer.log").exists():
            assert process.poll() is None and time.monotonic() < deadline_s
            time.sleep(0.1)
        for entry in Path("/proc").glob("[0-9]*"):
            line = (entry / "cmdline").read_bytes() if (entry / "cmdline").exists() else b""
            if f"trl_envs.training.worker\0{path}".encode() in line:
                os.kill(int(entry.name), signal.SIGKILL)
        _, err = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 4
    assert "the trainer ended before the run did: killed by SIGKILL" in err
    assert_nothing_is_left(path)


def test_two_runs_of_one_name_do_not_share_a_directory_and_bad_input_makes_none(tmp_path: Path) -> None:
    code, _, err = run(tmp_path, "recipe=catch", "preset=smoke", "grpo.num_generations=3", "run_name=bad")
    assert code == 2
    assert "grpo.num_generations=3" in err
    assert "hint: " in err
    assert not (tmp_path / "runs").exists()
    broken = ["recipe=catch", "preset=smoke", "envs.catch.rewards.caught.wieght=1", "run_name=bad"]
    for name in ("bad", "bad-2"):
        code, _, err = run(tmp_path, *broken)
        assert code == 2, err
        assert "takes no wieght" in err
        assert json.loads((tmp_path / "runs" / name / "record.json").read_text())["status"] == "failed"


@pytest.mark.slow
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
    code, _, err = run(tmp_path, "--resume", "runs/cut", "seed=3")
    assert code == 2
    assert "seed can't change" in err


def seeds_by_step(path: Path, attempt: int) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for episode in read_episodes(path / "episodes.jsonl"):
        if episode["attempt"] == attempt:
            found.setdefault(episode["step"], []).append(episode["seed"])
    return found


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_server_that_freezes_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    process = start(
        tmp_path, "recipe=catch", "preset=smoke", "grpo.max_steps=1000", "run_name=ice", "server.heartbeat_timeout_s=4"
    )
    path = tmp_path / "runs" / "ice"
    try:
        deadline_s = time.monotonic() + 120
        while not (path / "metrics.jsonl").exists() or not read_metrics(path / "metrics.jsonl"):
            assert process.poll() is None and time.monotonic() < deadline_s
            time.sleep(0.2)
        for entry in Path("/proc").glob("[0-9]*"):
            line = (entry / "cmdline").read_bytes() if (entry / "cmdline").exists() else b""
            port = json.loads((path / "plan.json").read_text())["environments"]["catch"]["process"]["port"]
            if f"--port\0{port}".encode() in line:
                os.kill(int(entry.name), signal.SIGSTOP)
        _, err = process.communicate(timeout=40)
    finally:
        process.kill()
    assert process.returncode == 4, err
    assert "the environment server of catch hangs" in err
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


@pytest.mark.slow
def test_a_server_whose_steps_fail_never_gives_a_finished_run(tmp_path: Path) -> None:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "sour.yaml").write_text(SOUR)
    (tmp_path / "sour.py").write_text(SOUR_SERVER)
    code, _, err = run(tmp_path, "recipe=sour", "preset=smoke", "run_name=sour")
    assert code != 0
    assert "the board is gone" in err
    assert json.loads((tmp_path / "runs" / "sour" / "record.json").read_text())["status"] == "failed"


BOTH = """
defaults: [echo, catch, _self_]
mix: {echo: 1, catch: 1}
"""


@pytest.mark.slow
def test_two_environments_share_every_batch_and_never_tools_or_terms(tmp_path: Path) -> None:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "both.yaml").write_text(BOTH)
    code, _, err = run(tmp_path, "recipe=both", "preset=smoke", "run_name=both")
    assert code == 0, err
    path = tmp_path / "runs" / "both"
    for line in (line for line in read_metrics(path / "metrics.jsonl") if "reward" in line):
        assert {"rewards/catch.caught/mean", "rewards/echo.length/mean"} <= line.keys()
    counts: dict[tuple[int, str], int] = {}
    for episode in read_episodes(path / "episodes.jsonl"):
        key = (episode["step"], episode["environment"])
        counts[key] = counts.get(key, 0) + 1
        tools = {event["tool"] for event in episode["events"]}
        assert tools <= ({"echo"} if episode["environment"] == "echo" else {"move", "stay"})
        assert list(episode["rewards"]) == [{"echo": "echo.length", "catch": "catch.caught"}[episode["environment"]]]
    assert counts == {(step, name): 4 for step in (1, 2) for name in ("echo", "catch")}
    for file in (path / "completions").glob("*.parquet"):
        for row in parquet.read_table(file).to_pylist():
            scored = {
                name for name in ("echo.length", "catch.caught") if row[name] is not None and row[name] == row[name]
            }
            assert len(scored) == 1
