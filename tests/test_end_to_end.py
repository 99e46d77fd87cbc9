"""Whole runs of the command, as a person starts them: real servers, real training of the tiny agent."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from tests.whole_runs import (
    MINE,
    MY_ENV,
    assert_nothing_is_left,
    processes_of,
    run,
    signal_process,
    start,
    the_run,
    wait_for_training,
)
from trl_envs.results.episodes import read_episodes
from trl_envs.results.metrics import read_metrics


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
    assert f"<h1>{path.name}</h1>" in (path / "report.html").read_text()
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
        wait_for_training(process, path)
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
    assert f"report   {path / 'report.html'}" in err
    assert "interrupted" in (path / "report.html").read_text()


def test_a_trainer_that_is_killed_ends_the_run_with_its_cause(tmp_path: Path) -> None:
    process = start(tmp_path, "recipe=catch", "preset=smoke", "grpo.max_steps=1000", "run_name=shot")
    path = tmp_path / "runs" / "shot"
    try:
        wait_for_training(process, path)
        signal_process(f"trl_envs.training.worker\0{path}".encode(), signal.SIGKILL)
        _, err = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 4
    assert "the trainer ended before the run did: killed by SIGKILL" in err
    assert "killed by SIGKILL" in (path / "report.html").read_text()
    assert_nothing_is_left(path)


def test_two_runs_of_one_name_do_not_share_a_directory_and_bad_input_makes_none(tmp_path: Path) -> None:
    code, _, err = run(tmp_path, "recipe=catch", "preset=smoke", "grpo.num_generations=3", "run_name=bad")
    assert code == 2
    assert "grpo.num_generations=3" in err
    assert "hint: " in err
    assert not (tmp_path / "runs").exists()
    broken = ["recipe=catch", "preset=smoke", "envs.catch.rewards.caught.wieght=1", "run_name=bad"]
    (tmp_path / "runs" / "bad").mkdir(parents=True)
    code, _, err = run(tmp_path, *broken)
    assert code == 2, err
    assert "takes no wieght" in err
    assert json.loads((tmp_path / "runs" / "bad-2" / "record.json").read_text())["status"] == "failed"
    assert list((tmp_path / "runs" / "bad").iterdir()) == []
