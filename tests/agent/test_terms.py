"""Reward terms, of both kinds, as TRL calls them."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from tests.agent.plain_env import Configured, Plain
from trl_envs.agent.clock import EnvironmentClock
from trl_envs.agent.environments import episode_of, instrumented
from trl_envs.agent.terms import build_terms, reward_function
from trl_envs.config.schema import EnvConfig
from trl_envs.envs.episode import Episode
from trl_envs.errors import ConfigError, TrainingFailed

HERE = "tests.agent.plain_env"


def terms(target: str, **values: Any) -> Any:
    node = {"_target_": target if "." in target else f"{HERE}.{target}", **values}
    return build_terms({"count": EnvConfig(rewards={"points": node})})


def played(name: str, numbers: list[int], cls: type = Plain) -> Any:
    environment = instrumented(cls, name, EnvironmentClock())(*([1] if cls is Configured else []))
    environment.reset(seed=1)
    for number in numbers:
        environment.count(number=number)
    return environment


def batch() -> list[Any]:
    """Two episodes of `count`, one of another environment, and a lost one of `count`."""
    lost = played("count", [1])
    episode_of(lost).lost = "the session was lost"
    return [played("count", [1, 2]), played("other", [1]), lost, played("count", [3])]


def call(term: Any, environments: list[Any]) -> Any:
    extra: dict[str, list[Any]] = {}
    done = reward_function(term)(
        environments=environments,
        completions=[["a"] * i for i in range(len(environments))],
        prompts=["p"] * len(environments),
        seed=list(range(len(environments))),
        trainer_state=object(),
        log_extra=lambda column, values: extra.update({column: values}),
    )
    return (asyncio.run(done) if inspect.iscoroutine(done) else done), extra


@pytest.mark.parametrize(
    ("target", "values", "scores"),
    [
        ("events", {}, [2.0, None, None, 1.0]),
        ("events", {"each": 0.5}, [1.0, None, None, 0.5]),
        ("total", {}, [3, None, None, 3]),
        ("lengths", {"factor": 2.0}, [0.0, None, None, 6.0]),
        ("later", {}, [None, None, None, None]),
    ],
)
def test_a_term_scores_its_own_episodes_and_no_lost_ones(
    target: str, values: dict[str, Any], scores: list[Any]
) -> None:
    [term] = terms(target, **values)
    assert term.full_name == "count.points"
    assert reward_function(term).__name__ == "count.points"
    found, extra = call(term, batch())
    assert found == scores
    if target == "later":
        assert extra == {"seen": ["Plain", None, None, "Plain"]}


def test_a_batch_without_the_terms_environment_is_not_scored_at_all() -> None:
    for target in ("events", "total"):
        [term] = terms(target)
        assert call(term, [played("other", [1])])[0] == [None]


def test_an_environments_own_reward_is_a_term() -> None:
    [term] = terms("trl_envs.envs.rewards.own_reward")
    assert call(term, [played("count", [1], Configured)])[0] == [0.5]


def test_weight_is_kept_apart_and_0_removes_the_term() -> None:
    assert terms("events", weight=2.5)[0].weight == 2.5
    assert terms("events")[0].weight == 1.0
    assert terms("events", weight=0) == []


@pytest.mark.parametrize(
    ("target", "values", "named"),
    [
        ("evens", {}, "did you mean events?"),
        ("events", {"eech": 1}, "did you mean envs.count.rewards.points.each?"),
        ("events", {"weight": "high"}, "envs.count.rewards.points.weight='high'"),
        ("total", {"speed": 1}, "takes no speed"),
        ("lengths", {"factr": 1}, "takes no factr"),
        ("nothing", {}, "takes no episode"),
    ],
)
def test_a_term_that_cannot_be_bound_is_refused(target: str, values: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        terms(target, **values)
    assert named in str(caught.value)


@pytest.mark.parametrize(
    ("target", "named"),
    [
        ("broken", "count.points failed: KeyError: 'no such fact'"),
        ("text", "returned 'high'"),
        ("text_number", "returned '1.0'"),
        ("not_a_number", "returned nan"),
        ("too_few", "returned 0 values for 2 episodes"),
    ],
)
def test_a_term_that_fails_stops_the_run_with_its_name(target: str, named: str) -> None:
    [term] = terms(target)
    with pytest.raises(TrainingFailed) as caught:
        call(term, batch())
    assert named in str(caught.value)


def test_one_episode_can_be_scored_alone() -> None:
    [term] = terms("events")
    assert term.score(Episode(environment="count")) == 0.0
    assert term.score(Episode(environment="other")) is None
    assert term.score(Episode(environment="count", lost="gone")) is None
