"""What TRL gets to see of an environment class, and what is recorded of it."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest
from transformers.utils import get_json_schema

from tests.agent.plain_env import Configured, Plain
from tests.loopback import serving
from trl_envs.agent.clock import EnvironmentClock
from trl_envs.agent.environments import build_factories, episode_of, instrumented, tools_of
from trl_envs.config.compose import compose
from trl_envs.config.schema import EnvConfig, RolloutConfig
from trl_envs.envs.catch import CatchEnv
from trl_envs.envs.game import end_episode
from trl_envs.errors import ConfigError

HERE = "tests.agent.plain_env"


def factory(target: str, clock: EnvironmentClock | None = None, **settings: Any) -> Any:
    env = EnvConfig(environment={"_target_": f"{HERE}.{target}", **settings})
    urls = {"count": ("http://127.0.0.1:9",)}
    return build_factories({"count": env}, urls, RolloutConfig(), {"count": None}, clock or EnvironmentClock())["count"]


@pytest.mark.parametrize("target", [Plain, Configured, CatchEnv])
def test_tools_keep_name_schema_and_kind(target: type) -> None:
    changed = instrumented(target, "x", EnvironmentClock())
    assert list(tools_of(changed)) == list(tools_of(target))
    for name, tool in tools_of(target).items():
        assert get_json_schema(tools_of(changed)[name]) == get_json_schema(tool)
        assert inspect.iscoroutinefunction(tools_of(changed)[name]) == inspect.iscoroutinefunction(tool)


def test_a_plain_class_gets_a_record_of_its_episode() -> None:
    clock = EnvironmentClock()
    environment = factory("Plain", clock)()
    assert environment.reset(seed=4, prompt="p") == "Count to three."
    assert environment.row == {"seed": 4, "prompt": "p"}
    environment.count(number=1)
    environment.count(number=3)
    with pytest.raises(ValueError, match="Game over"):
        environment.count(number=4)
    episode = episode_of(environment)
    assert (episode.environment, episode.seed, episode.done, episode.lost) == ("count", 4, True, None)
    assert [(e.tool, e.arguments, e.result, e.error, e.reward, e.done) for e in episode.events] == [
        ("count", {"number": 1}, "You said 1.", None, 1.0, False),
        ("count", {"number": 3}, "You said 3.", None, 4.0, True),
        ("count", {"number": 4}, None, "Game over.", 4.0, True),
    ]
    times = clock.take()
    assert times.calls == 4
    assert 0 < times.slowest_s <= times.waited_s
    assert clock.take().calls == 0
    environment.reset(seed=5)
    assert episode_of(environment).events == []


def test_settings_and_only_the_columns_that_reset_takes_are_passed() -> None:
    environment = factory("Configured", start=7)()
    assert (environment.start, environment.step) == (7, 1)
    environment.reset(seed=3, prompt="not taken")
    assert environment.seed == 3
    assert asyncio.run(environment.wait()) == "waited"
    assert [event.tool for event in episode_of(environment).events] == ["wait"]


def test_a_class_without_a_server_needs_no_url_and_one_with_sessions_does() -> None:
    env = EnvConfig(environment={"_target_": f"{HERE}.Plain"})
    build_factories({"count": env}, {"count": ()}, RolloutConfig(), {"count": None}, EnvironmentClock())["count"]()
    game = EnvConfig(environment={"_target_": "trl_envs.envs.catch.CatchEnv"})
    with pytest.raises(ConfigError, match=r"plays on an environment server, and envs\.count names none"):
        build_factories({"count": game}, {"count": ()}, RolloutConfig(), {"count": None}, EnvironmentClock())


def test_get_reward_is_a_term_and_not_scored_unasked() -> None:
    environment = factory("Configured", start=7)()
    assert not inspect.isfunction(type(environment).get_reward)
    assert environment._get_reward() == 0.5


@pytest.mark.parametrize(
    ("target", "settings", "named"),
    [
        ("total", {}, "is no environment class"),
        ("Configured", {}, "needs start"),
        ("Plain", {"speed": 1}, "takes no speed"),
        ("Plaine", {}, "did you mean Plain?"),
    ],
)
def test_what_is_no_environment_is_refused(target: str, settings: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        factory(target, **settings)
    assert named in str(caught.value)


def test_a_game_plays_through_the_recipes_own_config() -> None:
    clock = EnvironmentClock()
    config = compose(["recipe=catch"]).config
    with serving("catch") as server:
        urls = {"catch": (server.url,)}
        make = build_factories(config.envs, urls, config.rollout, {"catch": None}, clock)["catch"]
        environment = make()
        first = environment.reset(seed=11)
        environment.stay()
        assert environment.reset(seed=11) == first
        environment.move(direction="left")
        episode = episode_of(environment)
        assert (episode.environment, episode.seed, episode.lost) == ("catch", 11, None)
        assert [event.tool for event in episode.events] == ["move"]
        end_episode(environment)
    times = clock.take()
    assert times.calls == 4
    assert min(times.reset_s, times.tools_s) > 0
