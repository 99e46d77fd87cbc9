"""From no weights to a trained model, as a person does it: collect, sft, train; and what each refuses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trl_envs.results.collection import Collection

ROOT = Path(__file__).parent.parent
ENV = {**os.environ, "PYTHONPATH": str(ROOT)}


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "trl_envs", *arguments]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENV)


def call(folder: Path, *arguments: str) -> tuple[int, str, str]:
    process = start(folder, *arguments)
    try:
        out, err = process.communicate(timeout=600)
    finally:
        process.kill()
    return process.returncode, out, err


def collect(folder: Path, *more: str, out: str = "data") -> tuple[int, str, str]:
    return call(folder, "collect", "recipe=catch", "--out", out, *more)


@pytest.mark.slow
def test_games_warm_a_random_model_up_and_training_goes_on_from_it(tmp_path: Path) -> None:
    code, out, err = collect(tmp_path, "--episodes", "6", "--min-reward", "1", "--json")
    assert code == 0, err
    assert "collect  6/6 games" in err
    assert json.loads(out)["kept"] == 6
    games = (tmp_path / "data" / "games.jsonl").read_bytes()
    code, out, err = collect(tmp_path, "--episodes", "6", "--min-reward", "1")
    assert (code, err) == (0, "") and "kept     6 games" in out
    assert (tmp_path / "data" / "games.jsonl").read_bytes() == games

    warm = ["recipe=catch", "preset=smoke", "model=tiny-random", "--data", "data", "run_name=warm", "--json"]
    code, out, err = call(tmp_path, "sft", *warm)
    assert code == 0, err
    record = json.loads(out)
    run = tmp_path / "runs" / "warm"
    assert record == json.loads((run / "record.json").read_text())
    assert (record["kind"], record["status"], record["global_step"]) == ("sft", "finished", 2)
    assert record["final_metrics"]["loss"] > 0 and "step 2/2" in err
    assert (run / "model" / "tokenizer.json").is_file() and (run / "logs" / "trainer.log").is_file()
    assert json.loads((run / "model" / "config.json").read_text())["use_cache"] is True
    template = "chat_template.jinja"
    shipped = ROOT / "trl_envs" / "agent" / "tiny" / "model" / template
    assert (run / "model" / template).read_text() == shipped.read_text()
    assert "warm" in call(tmp_path, "runs")[1]

    code, out, err = call(tmp_path, "train", "--resume", "runs/warm")
    assert code == 2 and "is a warm-up" in err and "model=runs/warm" in err
    code, out, err = call(tmp_path, "train", "recipe=catch", "preset=smoke", "model=runs/warm", "--json")
    assert code == 0, err
    assert (json.loads(out)["kind"], json.loads(out)["global_step"]) == ("grpo", 2)


@pytest.mark.slow
def test_an_interrupted_collect_keeps_what_was_played_and_goes_on(tmp_path: Path) -> None:
    asked = ["--episodes", "3000", "--policy", "random"]
    process = start(tmp_path, "collect", "recipe=catch", "--out", "data", *asked)
    collection = Collection(tmp_path / "data")
    deadline_s = time.monotonic() + 300
    while not collection.played_file.exists() or collection.played_file.stat().st_size < 100_000:
        assert process.poll() is None and time.monotonic() < deadline_s
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "the same command goes on from there" in err
    played = len(collection.numbers()["catch"])
    assert 0 < played < 3000 and not collection.games_file.exists()

    code, _, err = call(tmp_path, "sft", "recipe=catch", "preset=smoke", "--data", "data")
    assert code == 2 and "aren't all played yet" in err and not (tmp_path / "runs").exists()
    code, out, err = collect(tmp_path, "--episodes", str(played + 5), "--policy", "random", "--json")
    assert code == 0, err
    assert json.loads(out)["played"] == played + 5


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["collect", "recipe=catch"], "--out"),
        (["collect", "recipe=catch", "--out", "data", "--policy", "hero"], "hero"),
        (["collect", "recipe=catch", "--out", "data", "--seed", "1000003"], "eval.seed"),
        (
            ["collect", "recipe=catch", "--out", "data", "--policy", "random", "--noise", "0.5"],
            "is for --policy solver",
        ),
        (["sft", "recipe=catch"], "--data"),
        (["sft", "recipe=catch", "--data", "nothing"], "holds no collected games"),
    ],
    ids=["no out", "no player", "the judge's seed", "noise on noise", "no data", "no games"],
)
def test_what_cannot_be_is_refused_before_anything_starts(tmp_path: Path, arguments: list[str], said: str) -> None:
    code, out, err = call(tmp_path, *arguments)
    assert (code, out) == (2, "") and said in err and "Traceback" not in err
    assert not list(tmp_path.iterdir())
