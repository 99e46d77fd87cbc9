"""The evaluation child on a real server: what it plays, writes and does about episodes that are lost."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tests.evaluate.playing import catch_config
from tests.loopback import serving, serving_app
from trl_envs.config.store import to_yaml
from trl_envs.envs.catch.server import CatchAction, CatchObservation, CatchServer
from trl_envs.evaluate.worker import main
from trl_envs.plan.build import build_plan
from trl_envs.plan.facts import MachineFacts
from trl_envs.results.episodes import read_episodes
from trl_envs.results.evaluation import Evaluation, read_evaluation
from trl_envs.results.outcome import Outcome
from trl_envs.results.rundir import RunDirectory
from trl_envs.rollout.openenv_core import create_fastapi_app
from trl_envs.rollout.session import SessionOpener, SessionSettings

FACTS = MachineFacts(gpus=[], mps=False, vllm=None, free_port=lambda host: 1, variables=dict(os.environ))
# The smoke preset's generation batch.
SESSIONS = 8
# A few turns an episode.
SHORT = {"grpo.max_completion_length": 200}


def planned_run(folder: Path, url: str, **overrides: Any) -> RunDirectory:
    run = RunDirectory.create(folder, "run")
    config = catch_config(
        **{"envs.catch.url": url, "eval.episodes": 10, "rollout.capacity_wait_s": 5, **SHORT, **overrides}
    )
    run.write_config(to_yaml(config))
    run.write_plan(build_plan(config, FACTS, run.path, []).as_dict())
    return run


def played(run: RunDirectory, name: str, *arguments: str) -> tuple[int, Evaluation | Outcome | None]:
    code = main([str(run.path), "--name", name, *arguments])
    return code, read_evaluation(run, name)


class HalfBroken(CatchServer):
    """Fails in the first step of every other episode."""

    def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> CatchObservation:
        self._broken = seed is not None and seed % 2 == 0
        return super().reset(seed=seed, episode_id=episode_id)

    def step(self, action: CatchAction, timeout_s: float | None = None, **_: Any) -> CatchObservation:
        if self._broken:
            raise RuntimeError("the game has a bug")
        return super().step(action)


def half_broken_app() -> Any:
    return create_fastapi_app(HalfBroken, CatchAction, CatchObservation, max_concurrent_envs=SESSIONS)


def test_the_same_evaluation_twice_is_the_same_within_the_planned_sessions(tmp_path: Path) -> None:
    with serving("catch", sessions=SESSIONS) as server:
        run = planned_run(tmp_path, server.url)
        code, first = played(run, "before")
        assert (code, played(run, "after", "--model", "tiny")[0]) == (0, 0)
        opener = SessionOpener([server.url], SessionSettings(capacity_wait_s=2))
        # A slot that was left open would be missing now.
        sessions = [opener()[0] for _ in range(SESSIONS)]
        for session in sessions:
            session.close()
    assert isinstance(first, Evaluation)
    result = first.environments["catch"]
    assert not result.by_game
    assert (first.temperature, result.episodes, result.lost, result.terms["caught"].n) == (1.0, 10, 0, 10)
    assert result.wins == result.terms["caught"]
    assert result.tool_calls > 10
    episodes = [list(read_episodes(run.eval_dir / f"{name}.jsonl")) for name in ("before", "after")]
    for episode in episodes[1]:
        assert episode.pop("mode") == "after"
    for episode in episodes[0]:
        assert episode.pop("mode") == "before"
        assert [message["role"] for message in episode["messages"][:2]] == ["user", "assistant"]
        assert episode["end"] in ("no tool call", "token budget", "iteration limit")
    assert episodes[0] == episodes[1]
    assert sum(episode["rewards"]["catch.caught"] for episode in episodes[0]) == 10 * (result.terms["caught"].mean or 0)
    assert len({episode["seed"] for episode in episodes[0]}) == 10


def test_greedy_play_twice_has_the_same_figures_and_counts_each_game_once(tmp_path: Path) -> None:
    with serving("catch", sessions=SESSIONS) as server:
        run = planned_run(tmp_path, server.url, **{"eval.temperature": 0})
        found = [played(run, name, "--model", "tiny") for name in ("tiny", "tiny-2")]
        solved = played(run, "solver", "--policy", "solver")
    (code, first), (other_code, second) = found
    assert (code, other_code, solved[0]) == (0, 0, 0)
    assert isinstance(first, Evaluation) and isinstance(second, Evaluation) and isinstance(solved[1], Evaluation)
    assert first.environments == second.environments
    result, scripted = first.environments["catch"], solved[1].environments["catch"]
    messages = [
        [episode["messages"] for episode in read_episodes(run.eval_dir / f"{name}.jsonl")]
        for name in ("tiny", "tiny-2")
    ]
    assert messages[0] == messages[1]
    games = {one[0]["content"] for one in messages[0]}
    assert result.wins is not None and scripted.wins is not None
    # The ball starts in one of five places.
    assert result.games == scripted.games == result.wins.n == result.turns.n == len(games) <= 5 < result.episodes
    assert (scripted.wins.mean, scripted.tokens.n, solved[1].backend) == (1.0, 0, "solver")


def test_lost_episodes_are_counted_and_left_out(tmp_path: Path) -> None:
    with serving_app(half_broken_app) as server:
        code, found = played(planned_run(tmp_path, server.url, **{"rollout.max_lost_fraction": 0.9}), "before")
    assert code == 0 and isinstance(found, Evaluation)
    result = found.environments["catch"]
    episodes = list(read_episodes(tmp_path / "run" / "eval" / "before.jsonl"))
    lost = [episode for episode in episodes if episode["lost"] is not None]
    assert all(episode["seed"] % 2 == 0 and "the game has a bug" in episode["lost"] for episode in lost)
    assert all(episode["rewards"] == {"catch.caught": None} and episode["end"] == "lost" for episode in lost)
    assert 0 < result.lost == len(lost) < result.episodes == 10
    assert result.terms["caught"].n == result.turns.n == 10 - result.lost


def test_too_many_lost_episodes_are_no_evaluation(tmp_path: Path) -> None:
    with serving_app(half_broken_app) as server:
        code, found = played(planned_run(tmp_path, server.url, **{"rollout.max_lost_fraction": 0.1}), "before")
    assert code == 1 and isinstance(found, Outcome)
    assert "of 10 episodes of the evaluation of catch were lost" in found.message
    assert "the game has a bug" in found.message
    assert "rollout.max_lost_fraction" in found.hint


def test_a_model_that_is_not_there_is_named(tmp_path: Path) -> None:
    with serving("catch", sessions=SESSIONS) as server:
        code, found = played(planned_run(tmp_path, server.url), "after", "--model", str(tmp_path / "nowhere"))
    assert code == 2 and isinstance(found, Outcome) and "nowhere" in found.message
    assert json.loads((tmp_path / "run" / "eval" / "after.error.json").read_text())["error"] == "ConfigError"
