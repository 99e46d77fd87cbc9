"""The batch arithmetic against TRL's own, and the sizes that it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from trl import GRPOConfig

from trl_envs.config.schema import EnvConfig, TrainConfig
from trl_envs.errors import PreflightError
from trl_envs.plan.batch import batch_problems, build_batch, fitting_overrides


def config(episodes: int = 1000, **grpo: Any) -> TrainConfig:
    return TrainConfig(envs={"catch": EnvConfig(episodes=episodes)}, grpo=grpo)


SIZES: list[dict[str, Any]] = [
    {},
    {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 16},
    {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 8, "num_generations": 16},
    {"per_device_train_batch_size": 4, "steps_per_generation": 6},
    {"per_device_train_batch_size": 4, "generation_batch_size": 16, "num_generations": 2},
    {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 64},
]


@pytest.mark.parametrize("grpo", SIZES, ids=str)
def test_sizes_are_those_of_trl(grpo: dict[str, Any], tmp_path: Path) -> None:
    batch = build_batch(config(**grpo))
    real = GRPOConfig(output_dir=str(tmp_path), use_cpu=True, bf16=False, **grpo)
    assert batch.generation_batch == real.generation_batch_size
    assert batch.num_generations == real.num_generations
    assert batch.per_process == real.per_device_train_batch_size * real.steps_per_generation
    assert batch.sessions == batch.generation_batch


REFUSED = [
    ({"num_generations": 1}, "at least 2", "num_generations"),
    ({"num_generations": 0}, "num_generations=0", "num_generations"),
    ({"num_generations": None}, "num_generations=None", "num_generations"),
    ({"num_generations": 3}, "groups of grpo.num_generations=3", "num_generations=2"),
    ({"per_device_train_batch_size": 0}, "per_device_train_batch_size=0", "per_device_train_batch_size"),
    ({"per_device_train_batch_size": "8"}, "per_device_train_batch_size='8'", "per_device_train_batch_size"),
    ({"gradient_accumulation_steps": -1}, "gradient_accumulation_steps=-1", "gradient_accumulation_steps"),
    ({"generation_batch_size": 12}, "can't be split over 1 process", "multiple of 8"),
    ({"generation_batch_size": 8, "steps_per_generation": 1}, "both set", "null"),
]


@pytest.mark.parametrize(("grpo", "message", "hint"), REFUSED, ids=str)
def test_sizes_that_trl_would_refuse_are_refused_first(
    grpo: dict[str, Any], message: str, hint: str, tmp_path: Path
) -> None:
    with pytest.raises(PreflightError) as caught:
        build_batch(config(**grpo))
    assert message in str(caught.value)
    assert hint in str(caught.value)


def test_all_that_is_wrong_with_the_sizes_is_said_at_once() -> None:
    with pytest.raises(PreflightError) as caught:
        build_batch(config(num_generations=7, generation_batch_size=12, per_device_train_batch_size=5))
    assert caught.value.message.startswith("2 things can't work")
    assert "multiple of 5" in caught.value.message
    assert "groups of grpo.num_generations=7" in caught.value.message
    assert not batch_problems(config(num_generations=4))


def test_an_evaluation_batch_counts_once_it_is_asked_for() -> None:
    assert build_batch(config()).sessions == 8
    assert build_batch(config(per_device_eval_batch_size=24)).sessions == 24
    assert build_batch(config(eval_strategy="steps", per_device_train_batch_size=4, num_generations=4)).sessions == 8
    with pytest.raises(PreflightError, match="per_device_eval_batch_size=12 on 1") as caught:
        build_batch(config(eval_strategy="steps", per_device_eval_batch_size=12))
    assert "per_device_eval_batch_size=8" in caught.value.hint


@pytest.mark.parametrize("grpo", [*SIZES, {"per_device_eval_batch_size": 16}, {"num_generations": 2}], ids=str)
@pytest.mark.parametrize("sessions", [1, 2, 3, 5, 7, 8, 11])
@pytest.mark.parametrize("processes", [1, 2])
def test_the_overrides_that_fit_do_fit(grpo: dict[str, Any], sessions: int, processes: int) -> None:
    asked = config(**grpo)
    asked.launch.processes = processes
    overrides = fitting_overrides(asked, sessions)
    if not overrides:
        assert sessions < 2 * processes or build_batch(asked).sessions <= sessions
        return
    for override in overrides.split():
        key, _, value = override.partition("=")
        asked.grpo[key.removeprefix("grpo.")] = None if value == "null" else int(value)
    assert 2 <= build_batch(asked).sessions <= sessions


def test_a_data_set_smaller_than_one_batch_would_train_no_step() -> None:
    grpo = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 2}
    assert build_batch(config(episodes=2, **grpo)).groups == 2
    with pytest.raises(PreflightError, match="no step") as caught:
        build_batch(config(episodes=1, **grpo))
    assert "envs.catch.episodes to 2" in caught.value.hint


def test_processes_multiply_sessions() -> None:
    two = config()
    two.launch.processes = 2
    assert build_batch(two).sessions == 16
