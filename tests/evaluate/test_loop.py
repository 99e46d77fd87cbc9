"""Rows, limits, tools and scores of the episode loop, on the catch server and on classes as TRL's guide writes them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.agent import plain_env
from tests.evaluate.playing import SAMPLED, catch_config, catch_factory, player
from tests.loopback import serving
from trl_envs.agent.clock import EnvironmentClock
from trl_envs.agent.dataset import build_rows
from trl_envs.agent.environments import instrumented
from trl_envs.agent.terms import build_terms
from trl_envs.config.schema import EnvConfig
from trl_envs.evaluate.batches import evaluation_rows, play_rows, score
from trl_envs.evaluate.loop import Limits, Rollout
from trl_envs.evaluate.tools import async_loop, bound_tools, call_tools


@pytest.mark.parametrize(
    ("limits", "ends", "longest"),
    [(Limits(1024, 2), {"iteration limit", "no tool call"}, 1024), (Limits(150, None), {"token budget"}, 150)],
)
def test_an_episode_ends_at_its_limits(limits: Limits, ends: set[str], longest: int) -> None:
    config = catch_config(**{"envs.catch.episodes": 4})
    with serving("catch", sessions=4) as server, player(SAMPLED, limits) as ours:
        (batch,) = play_rows(ours, catch_factory(server.url), build_terms(config.envs), build_rows(config.envs), 4)
    rollouts = [one.rollout for one in batch]
    assert ends & {rollout.end for rollout in rollouts}
    assert {rollout.end for rollout in rollouts} <= {*ends, "no tool call"}
    assert all(len(rollout.completion_ids) <= longest for rollout in rollouts)
    assert all(rollout.rounds <= (limits.max_tool_calling_iterations or 99) for rollout in rollouts)


def test_a_seed_decides_what_is_sampled() -> None:
    config = catch_config(**{"envs.catch.episodes": 4})
    texts = []
    with serving("catch", sessions=8) as server:
        for seed in (1, 1, 2):
            with player(limits=Limits(200), seed=seed) as ours:
                (batch,) = play_rows(ours, catch_factory(server.url), [], build_rows(config.envs), 4)
            texts.append([one.rollout.completion_ids for one in batch])
    assert texts[0] == texts[1] != texts[2]


def test_no_row_of_an_evaluation_is_trained_on() -> None:
    env = catch_config(**{"envs.catch.episodes": 50}).envs["catch"]
    trained = {row["seed"] for row in build_rows({"catch": env})}
    for seed in (env.seed, 1_000_003):
        rows = evaluation_rows("catch", env, seed, 30)
        assert len({row["seed"] for row in rows}) == len(rows) == 30
        assert not trained & {row["seed"] for row in rows}
        assert rows == evaluation_rows("catch", env, seed, 30)
    # Nor on one that a longer run of the same seed used, of which `trl-env eval` knows nothing.
    longer = {row["seed"] for row in build_rows({"catch": replace(env, episodes=5000)})}
    assert not longer & {row["seed"] for row in evaluation_rows("catch", env, env.seed, 30)}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


def test_what_goes_wrong_in_a_tool_is_told_to_the_model_and_async_tools_come_last() -> None:
    environment = instrumented(plain_env.Configured, "plain", EnvironmentClock())(start=0)
    environment.reset(seed=1)
    calls = [call("wait"), call("count", number=1), call("fly"), call("count", amount=2), {"type": "magic"}]
    with async_loop() as loop:
        results, failures = call_tools(calls, bound_tools(environment), loop)
    assert failures == 3
    assert [(one["name"], one["content"]) for one in results[:2]] == [
        ("count", "You said 1."),
        ("fly", "{'error': 'Tool fly not found.'}"),
    ]
    assert "unexpected keyword argument 'amount'" in results[2]["content"]
    assert results[3] == {
        "role": "tool",
        "name": "unknown",
        "content": "{'error': 'Unsupported tool call type: magic'}",
    }
    assert results[4] == {"role": "tool", "name": "wait", "content": "waited"}


def test_terms_written_for_trl_score_as_in_training() -> None:
    target = "tests.agent.plain_env"
    rewards = {name: {"_target_": f"{target}.{name}"} for name in ("total", "lengths", "later", "events")}
    terms = build_terms({"plain": EnvConfig(rewards=rewards), "other": EnvConfig(rewards={"x": rewards["events"]})})
    environment = instrumented(plain_env.Plain, "plain", EnvironmentClock())()
    environment.reset(seed=1)
    environment.count(number=2)
    row = {"prompt": [], "environment": "plain", "seed": 1}
    rollout = Rollout(row, environment, bound_tools(environment), completion=[{"role": "assistant", "content": "hi"}])
    with async_loop() as loop:
        (scores,) = score([rollout], terms, loop)
    assert scores == {"plain.total": 2.0, "plain.lengths": 1.0, "plain.later": None, "plain.events": 1.0}
