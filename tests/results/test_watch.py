"""Signs that a run can't learn: recorded sequences of metrics, each broken in one way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trl_envs.errors import TrainingFailed
from trl_envs.results.metrics import MetricsWriter
from trl_envs.results.sign_rules import find_signs
from trl_envs.results.signs import RunNumbers, Sign
from trl_envs.results.watch import RunWatch, latest_stretch

NUMBERS = RunNumbers("catch", {"catch.caught": 1.0, "catch.speed": 1.0}, 1024, 8, 1.0, 4e-6)
PATIENCE = 4
# reward, its spread and the entropy of a run that learns: every tenth line of trl-env train recipe=catch preset=demo.
LEARNING = [
    (0.5625, 0.504, 0.0, 0.102),
    (0.7188, 0.440, 0.25, 0.078),
    (0.9375, 0.246, 0.5, 0.039),
    (0.9375, 0.246, 0.75, 0.040),
    (1.0, 0.0, 1.0, 0.037),
    (0.875, 0.336, 0.5, 0.030),
    (0.9688, 0.177, 0.75, 0.016),
    (1.0, 0.0, 1.0, 0.012),
    (1.0, 0.0, 1.0, 0.012),
    (1.0, 0.0, 1.0, 0.012),
    (1.0, 0.0, 1.0, 0.012),
    (1.0, 0.0, 1.0, 0.012),
]


def line(step: int, **changed: Any) -> dict[str, Any]:
    """A line as TRL and the trainer log it, of a step at which nothing is wrong."""
    whole: dict[str, Any] = {
        "step": step,
        "reward": 0.5 + 0.01 * (step % 3),
        "reward_std": 0.4,
        "frac_reward_zero_std": 0.25,
        "rewards/catch.caught/mean": 0.4,
        "rewards/catch.caught/std": 0.4,
        "rewards/catch.speed/mean": 0.1 + 0.01 * (step % 3),
        "rewards/catch.speed/std": 0.05,
        "tools/call_frequency": 8.0,
        "tools/failure_frequency": 0.01,
        "completions/clipped_ratio": 0.02,
        "entropy": 0.1,
        "episodes/played": 8,
        "episodes/lost": 0,
        "groups/differing_games": 0.0,
    }
    return {**whole, **{name.replace("__", "/"): value for name, value in changed.items()}}


def flat(**changed: Any) -> dict[str, Any]:
    return {"reward_std": 0.0, "frac_reward_zero_std": 1.0, **changed}


UNSCORED = {"rewards__catch.caught__mean": None, "rewards__catch.speed__mean": None, "reward": None, "reward_std": None}
ZERO = {"rewards__catch.caught__std": 0.0, "rewards__catch.speed__std": 0.0, "reward": 0.0}


def opposite(step: int) -> dict[str, Any]:
    """What one term gives, the other takes; a third keeps the reward from being constant."""
    given = 0.1 * (step % 4)
    return line(step, **{"rewards__catch.caught__mean": given, "rewards__catch.speed__mean": 0.5 - given})


# By sign: the line of each step, what the sentence names and what the hint has one try.
BROKEN: dict[str, tuple[Callable[[int], dict[str, Any]], str, str]] = {
    "constant_reward": (lambda step: line(step, **flat(**ZERO)), "0.00 in every episode", "trl-env baseline recipe=c"),
    "no_spread": (
        lambda step: line(step, frac_reward_zero_std=1.0),
        "all rollouts of a group scored the same",
        "grpo.temperature=1.25 or grpo.num_generations=16",
    ),
    "all_lost": (lambda step: line(step, episodes__lost=8, **flat(**UNSCORED)), "all 32 episodes", "logs/server-"),
    "unscored": (lambda step: line(step, **UNSCORED), "catch.caught and catch.speed returned None", "_target_"),
    "no_calls": (
        lambda step: line(step, tools__call_frequency=0.0, **flat(**ZERO)),
        "called no tool",
        "enable_thinking: false",
    ),
    "calls_vanished": (
        lambda step: line(step, tools__call_frequency=8.0 if step <= 6 else 0.2),
        "stopped calling tools: 8.00 calls",
        "grpo.learning_rate=1e-06",
    ),
    "clipped": (
        lambda step: line(step, completions__clipped_ratio=1.0, **flat(**ZERO)),
        "grpo.max_completion_length=1024 tokens",
        "grpo.max_completion_length=2048",
    ),
    "tool_failures": (lambda step: line(step, tools__failure_frequency=0.8), "80% of the tool calls", "envs.NAME"),
    "cancelling": (opposite, "catch.caught and catch.speed cancelled", "envs.catch.rewards.speed.weight=0.25"),
    "ignored_seed": (
        lambda step: line(step, groups__differing_games=0.75),
        "ignores the episode's seed",
        "envs.NAME.url=null server=local",
    ),
    "entropy_collapsed": (
        lambda step: line(step, entropy=0.2 if step <= 6 else 0.0005, reward=0.6 if step <= 6 else 0.1),
        "from 0.200 to 0.0005",
        "grpo.temperature=1.2",
    ),
}


def signs_of(lines: list[dict[str, Any]]) -> list[Sign]:
    stretch = latest_stretch(lines, PATIENCE, NUMBERS)
    return [] if stretch is None else find_signs(stretch)


@pytest.mark.parametrize("name", BROKEN)
def test_each_sign_is_seen_alone_with_its_own_sentence_and_something_to_try(name: str) -> None:
    make, said, tried = BROKEN[name]
    [sign] = signs_of([make(step) for step in range(1, 14)])
    assert sign.name == name
    assert said in sign.message and tried in sign.hint
    assert not any(said in BROKEN[other][1] for other in BROKEN if other != name)


@pytest.mark.parametrize("name", sorted(set(BROKEN) - {"calls_vanished", "entropy_collapsed"}))
def test_a_sign_must_last(name: str) -> None:
    make = BROKEN[name][0]
    broken = [make(step) for step in range(1, PATIENCE)]
    assert not signs_of(broken)
    assert not signs_of([line(step) for step in range(1, 6)] + [make(6), make(7)])
    assert name in [sign.name for sign in signs_of([*broken, make(PATIENCE)])]


def test_a_run_that_learns_shows_no_sign_on_its_way_nor_when_it_has_learnt() -> None:
    lines = [
        line(
            step,
            reward=reward,
            reward_std=spread,
            frac_reward_zero_std=flat_groups,
            entropy=entropy,
            **{"rewards__catch.caught__mean": reward, "rewards__catch.caught__std": spread},
            **{"rewards__catch.speed__mean": 0.0, "rewards__catch.speed__std": 0.0},
        )
        for step, (reward, spread, flat_groups, entropy) in enumerate(LEARNING, start=1)
    ]
    for end in range(1, len(lines) + 1):
        assert not signs_of(lines[:end])


def test_two_terms_that_cancel_within_every_episode_are_named_rather_than_the_constant_sum() -> None:
    [sign] = signs_of([line(step, **flat(reward=0.0)) for step in range(1, 9)])
    assert sign.name == "cancelling" and "catch.caught and catch.speed" in sign.message


def test_a_line_stands_for_all_steps_since_the_one_before() -> None:
    seldom = [line(step, **flat(**ZERO)) for step in (10, 20)]
    assert [sign.name for sign in signs_of(seldom[:1])] == ["constant_reward"]
    stretch = latest_stretch(seldom, PATIENCE, NUMBERS)
    assert stretch is not None and (stretch.steps, len(stretch.lines)) == (10, 1)


def test_lines_of_evaluations_and_missing_metrics_are_no_sign() -> None:
    assert not signs_of([{"step": step, "eval_reward": 0.0} for step in range(9)])
    assert not signs_of([{"step": step, "reward": 0.0} for step in range(9)])
    assert not signs_of([{"step": 20, "train_runtime": 3.0}])


def watching(path: Path, **options: Any) -> tuple[RunWatch, MetricsWriter, list[str]]:
    told: list[str] = []
    watch = RunWatch(path, NUMBERS, PATIENCE, tell=lambda sign: told.append(sign.name), **options)
    return watch, MetricsWriter(path), told


def test_a_sign_is_told_once(tmp_path: Path) -> None:
    watch, writer, told = watching(tmp_path / "metrics.jsonl")
    for step in range(1, 12):
        number, metrics = step, line(step, tools__failure_frequency=0.8, groups__differing_games=float(step > 5))
        writer.write(number, metrics)
        watch.look()
    assert told == ["tool_failures", "ignored_seed"] == [sign.name for sign in watch.signs]


def test_a_sign_stops_the_run_that_asked_for_it(tmp_path: Path) -> None:
    watch, writer, told = watching(tmp_path / "metrics.jsonl", stop=True)
    for step in range(1, PATIENCE):
        writer.write(step, line(step, **flat(**ZERO)))
        watch.look()
    writer.write(PATIENCE, line(PATIENCE, **flat(**ZERO)))
    with pytest.raises(TrainingFailed, match=r"stopped at step 4 .*constant_reward: the reward was 0.00") as caught:
        watch.look()
    assert caught.value.exit_code == 1 and "trl-env baseline" in caught.value.hint
    assert told == ["constant_reward"]


def test_what_an_earlier_attempt_wrote_is_not_judged(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    earlier = MetricsWriter(path)
    for step in range(1, 21):
        earlier.write(step, line(step, **flat(**ZERO)))
    watch, writer, told = watching(path)
    watch.look()
    for step in range(11, 11 + PATIENCE - 1):
        writer.write(step, line(step, **flat(**ZERO)))
    watch.look()
    assert not told
    writer.write(11 + PATIENCE - 1, line(11 + PATIENCE - 1, **flat(**ZERO)))
    watch.look()
    assert told == ["constant_reward"]
