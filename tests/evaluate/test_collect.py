"""The collecting child on a real server: the games' format, going on after an interruption, and what is left out."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset, load_dataset

from tests.evaluate.playing import catch_config
from tests.evaluate.test_baseline import planned
from tests.evaluate.test_worker import half_broken_app
from tests.loopback import serving, serving_app
from trl_envs.agent.dataset import build_rows
from trl_envs.agent.policies import Move
from trl_envs.envs.episode import Episode
from trl_envs.evaluate.collect import main
from trl_envs.evaluate.scripted import noisy
from trl_envs.results.collection import Collection
from trl_envs.results.jsonlines import read_json_lines
from trl_envs.results.outcome import Outcome, read_outcome
from trl_envs.results.rundir import RunDirectory

SESSIONS = 12


def collected(folder: Path, url: str, policy: str, episodes: int, *more: str, **overrides: Any) -> Collection:
    """A collection in the folder after one call of the child; what it holds already isn't played again."""
    run = RunDirectory(folder / "run")
    if not run.path.exists():
        planned(folder, catch_config(**{"envs.catch.url": url, "rollout.capacity_wait_s": 5, **overrides}))
    made = Collection(folder / "data")
    with made.held({"by": policy}):
        asked = ["--out", str(made.path), "--policy", policy, "--episodes", str(episodes), *more]
        assert main([str(run.path), *asked]) == 0, read_outcome(run)
    return made


def test_a_solvers_games_are_conversations_that_datasets_reads(tmp_path: Path) -> None:
    with serving("catch", sessions=SESSIONS) as server:
        made = collected(tmp_path, server.url, "solver", 5, "--thoughts")
    found = made.finish(5, 1.0)
    assert (found.played, found.kept, found.thoughts) == (5, 5, 45)
    data = load_dataset("json", data_files=str(made.games_file), split="train", cache_dir=str(tmp_path / "cache"))
    assert isinstance(data, Dataset) and len(data) == 5
    rows = build_rows(catch_config(**{"envs.catch.episodes": 5}).envs)
    assert [game["seed"] for game in data] == [row["seed"] for row in rows]
    game = data[0]
    assert game["messages"][0]["content"].startswith(rows[0]["prompt"][0]["content"] + "Ball: column")
    assert [message["role"] for message in game["messages"]] == ["user", *["assistant", "tool"] * 9, "assistant"]
    assert game["messages"][-1]["content"] == "Done."
    call = game["messages"][1]["tool_calls"][0]
    assert call["type"] == "function" and isinstance(json.loads(call["function"]["arguments"]), dict)
    assert game["messages"][1]["reasoning_content"].startswith("The ball is ")
    assert [tool["function"]["name"] for tool in json.loads(game["tools"])] == ["move", "stay"]
    assert game["chat_template_kwargs"] == {"enable_thinking": False}
    assert (game["environment"], game["rewards"], game["reward"]) == ("catch", {"catch.caught": 1.0}, 1.0)


@pytest.mark.parametrize(
    ("policy", "more"),
    [("random", []), ("model", []), ("solver", ["--noise", "0.7"])],
    ids=["random", "model", "noisy"],
)
def test_an_interrupted_collect_goes_on_to_the_same_games(tmp_path: Path, policy: str, more: list[str]) -> None:
    short = {"rollout.concurrency": 4, "grpo.max_completion_length": 150}
    with serving("catch", sessions=SESSIONS) as server:
        whole = collected(tmp_path / "whole", server.url, policy, 8, *more, **short)
        parts = collected(tmp_path / "parts", server.url, policy, 4, *more, **short)
        first = parts.played_file.read_bytes()
        again = collected(tmp_path / "parts", server.url, policy, 8, *more, **short)
        after = again.played_file.read_bytes()
        assert collected(tmp_path / "parts", server.url, policy, 8, *more, **short).played_file.read_bytes() == after
    assert after.startswith(first) and after == whole.played_file.read_bytes()
    played = list(read_json_lines(again.played_file))
    assert [one["number"] for one in played] == list(range(8))
    assert len({json.dumps(one["game"]) for one in played}) > 1 or policy == "model"


def test_noise_makes_that_share_of_the_moves_at_random() -> None:
    def solve(observation: str, episode: Episode, rng: random.Random) -> Move | None:
        return None if episode.done else ("move", {"direction": "left"})

    def stray(observation: str, episode: Episode, rng: random.Random) -> Move | None:
        return ("stay", {})

    for share, least, most in ((0.0, 0, 0), (0.3, 230, 370), (1.0, 1000, 1000)):
        policy, rng = noisy(solve, stray, share), random.Random(0)
        moves = [policy("", Episode(), rng) for _ in range(1000)]
        assert least <= moves.count(("stay", {})) <= most
    assert noisy(solve, stray, 1.0)("", Episode(done=True), random.Random(0)) is None


def test_another_seed_plays_other_games_and_no_reasons_are_kept_unasked(tmp_path: Path) -> None:
    with serving("catch", sessions=SESSIONS) as server:
        one = collected(tmp_path / "one", server.url, "solver", 3)
        other = collected(tmp_path / "other", server.url, "solver", 3, "--seed", "7")
    seeds = [[game["seed"] for game in read_json_lines(made.played_file)] for made in (one, other)]
    assert not set(seeds[0]) & set(seeds[1])
    assert "reasoning_content" not in one.played_file.read_text()


def test_games_that_were_cut_off_are_counted_and_not_kept(tmp_path: Path) -> None:
    with serving("catch", sessions=SESSIONS) as server:
        made = collected(tmp_path, server.url, "model", 6, **{"grpo.max_tool_calling_iterations": 2})
    played = list(read_json_lines(made.played_file))
    cut = [one for one in played if one["end"] == "iteration limit"]
    assert cut and all(one["game"] is None and one["reward"] is not None for one in cut)


def test_lost_episodes_are_left_for_the_next_time(tmp_path: Path) -> None:
    broken = {"rollout.max_lost_fraction": 0.9}
    with serving_app(half_broken_app) as server:
        made = collected(tmp_path, server.url, "random", 8, **broken)
    played = list(read_json_lines(made.played_file))
    assert 0 < len(played) < 8 and all(one["seed"] % 2 for one in played)
    run = RunDirectory(tmp_path / "run")
    text = run.plan_file.read_text()
    with serving("catch", sessions=SESSIONS) as sound:
        run.write_plan(json.loads(text.replace(server.url, sound.url)))
        made = collected(tmp_path, sound.url, "random", 8, **broken)
    assert made.numbers() == {"catch": set(range(8))}


def test_too_many_lost_episodes_and_a_game_without_a_solver_are_said(tmp_path: Path) -> None:
    with serving_app(half_broken_app) as server:
        run = planned(tmp_path, catch_config(**{"envs.catch.url": server.url, "rollout.max_lost_fraction": 0.1}))
        asked = [str(run.path), "--out", str(tmp_path), "--episodes", "8", "--policy"]
        assert main([*asked, "random"]) == 1
        outcome = read_outcome(run)
        assert isinstance(outcome, Outcome) and "episodes of the games of catch were lost" in outcome.message
        text = run.config_file.read_text().replace("trl_envs.envs.catch.CatchEnv", "tests.agent.plain_env.Plain")
        run.write_config(text)
        assert main([*asked, "solver"]) == 2
    outcome = read_outcome(run)
    assert outcome is not None and "tests.agent.plain_env.Plain has no solver" in outcome.message
