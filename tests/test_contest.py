"""`trl-env eval` as a person runs it, and what it refuses before anything starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trl_envs.contest import Contestant, _named, local_models
from trl_envs.errors import ConfigError
from trl_envs.results.episodes import read_episodes

ROOT = Path(__file__).parent.parent


def call(folder: Path, *arguments: str, **variables: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "trl_envs", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "120", **variables},
    )
    return done.returncode, done.stdout, done.stderr


def figures(player: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in player.items() if key not in ("name", "seconds", "transcripts")}


@pytest.mark.slow
def test_one_model_twice_scores_the_same_and_a_game_counts_once(tmp_path: Path) -> None:
    players = ("--model", "tiny", "--model", "tiny", "--policy", "solver")
    code, out, err = call(
        tmp_path, "eval", "recipe=catch", "preset=smoke", *players, "--episodes", "12", "--json", "--out", "found"
    )
    assert code == 0, err
    for label in ("solver", "tiny", "tiny-2"):
        assert f"eval     {label}: 12/12 episodes" in err
    found = json.loads(out)
    assert found == json.loads((tmp_path / "found" / "evaluation.json").read_text())
    assert list(found["players"]) == ["solver", "tiny", "tiny (2)"]
    solver, first, second = found["players"].values()
    assert figures(first) == figures(second)
    played = [list(read_episodes(Path(one["transcripts"]))) for one in (first, second)]
    for episodes in played:
        for episode in episodes:
            assert episode.pop("mode") in ("tiny", "tiny-2") and len(episode["messages"]) > 2
    assert played[0] == played[1] and len(played[0]) == 12
    result = first["environments"]["catch"]
    openings = {episode["messages"][0]["content"] for episode in played[0]}
    # The ball starts in one of five places, and greedy play is the same each time.
    assert result["games"] == len(openings) == result["wins"]["n"] <= 5 and result["by_game"]
    assert (result["episodes"], first["temperature"], first["seed"]) == (12, 0.0, 0)
    assert solver["environments"]["catch"]["wins"]["mean"] == 1.0
    assert (solver["model"], solver["backend"], first["backend"]) == ("solver", "solver", "transformers")
    server = (tmp_path / "found" / "logs").glob("server-*.log")
    assert len(list(server)) == 1


def test_scripts_alone_leave_a_table_and_a_folder_of_their_own(tmp_path: Path) -> None:
    code, out, err = call(tmp_path, "eval", "recipe=catch", "--policy", "solver", "--episodes", "6", "--seed", "3")
    assert code == 0, err
    assert "solver" in out and "won" in out and "1.00" in out and "seed 3; figures and transcripts in" in out
    [folder] = (tmp_path / "runs" / "evaluations").iterdir()
    assert folder.name.startswith("catch-") and (folder / "evaluation.json").is_file()
    # The folder of evaluations is taken for no run.
    assert "no runs" in call(tmp_path, "runs")[2]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--model", "tinny"), "model=tiny"),
        (("--model", "./runs/nowhere"), "./runs/nowhere isn't there"),
        (("--base-url", "http://127.0.0.1:1/v1"), "--model NAME"),
        (("--base-url", "localhost:8000", "--model", "x"), "--base-url http://HOST:8000/v1"),
        (("--base-url", "http://127.0.0.1:1/v1", "--model", "x", "--backend", "vllm"), "use one of them"),
        (("--policy", "solver", "--out", "taken"), "--out taken is there already"),
        (("--model", "tiny", "grpo.lerning_rate=1"), "grpo.learning_rate"),
    ],
    ids=["unknown model", "no folder", "no name", "no address", "two backends", "taken folder", "wrong key"],
)
def test_what_cannot_be_is_refused_before_anything_starts(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "mine").touch()
    code, out, err = call(tmp_path, "eval", "recipe=catch", "preset=smoke", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: ") and "\n\nhint: " in err and said in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["taken"]


@pytest.mark.slow
def test_an_endpoint_that_is_not_there_ends_it_with_its_address(tmp_path: Path) -> None:
    url = "http://127.0.0.1:9/v1"
    asked = ("--base-url", url, "--model", "x", "--api-key-env", "MY_KEY", "--episodes", "2", "--out", "found")
    code, _, err = call(tmp_path, "eval", "recipe=catch", *asked, MY_KEY="sk-very-secret")
    assert code == 1
    assert f"{url} can't be reached" in err and "correct --base-url" in err
    assert "Traceback" not in err
    # The key is in no file.
    files = [path for path in (tmp_path / "found").rglob("*") if path.is_file()]
    assert files and not any("sk-very-secret" in path.read_text() for path in files)
    assert "sk-very-secret" not in err


def test_players_are_told_apart_by_their_labels(tmp_path: Path) -> None:
    for folder in ("a/model", "b/model", "c/one", "d/one"):
        (tmp_path / folder).mkdir(parents=True)
    paths = [str(tmp_path / folder) for folder in ("a/model", "b/model", "c/one", "d/one")]
    models = local_models([(path, path) for path in paths] + [("tiny", "tiny"), ("tiny", "tiny")], "transformers")
    assert [one.label for one in models] == ["a/model", "b/model", paths[2], paths[3], "tiny", "tiny"]
    assert models[0].arguments == ("--model", paths[0], "--backend", "transformers")
    named = _named([*models, Contestant("a model", ()), Contestant("../..", ())])
    assert [one.label for one in named.values()][4:] == ["tiny", "tiny (2)", "a model", "../.."]
    assert list(named)[:2] == ["a-model", "b-model"] and list(named)[4:] == ["tiny", "tiny-2", "a-model-2", "player"]


def test_a_run_without_a_model_and_an_adapter_for_vllm_are_refused(tmp_path: Path) -> None:
    (tmp_path / "record.json").write_text("{}")
    with pytest.raises(ConfigError, match="neither a final model nor a checkpoint"):
        local_models([("run", str(tmp_path))], "transformers")
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text('{"base_model_name_or_path": "tiny"}')
    with pytest.raises(ConfigError, match="plays no adapter"):
        local_models([("adapter", str(adapter))], "vllm")
    with pytest.raises(ConfigError, match="tiny-random has none"):
        local_models([("tiny-random", "tiny-random")], "vllm")
