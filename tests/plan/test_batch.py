"""The batch arithmetic against TRL's own, and the sizes that it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from trl import GRPOConfig

from trl_envs.config.schema import EnvConfig, TrainConfig
from trl_envs.errors import PreflightError
from trl_envs.plan.batch import build_batch


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
    assert message in caught.value.message
    assert hint in caught.value.hint


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
