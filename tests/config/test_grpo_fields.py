"""Fields read from the source against the real GRPOConfig."""

from __future__ import annotations

import dataclasses

from trl import GRPOConfig

from trl_envs.config.grpo_fields import OWNED, grpo_fields, grpo_value


def test_names_are_those_of_the_installed_config() -> None:
    real = {field.name for field in dataclasses.fields(GRPOConfig) if field.init}
    assert set(grpo_fields()) == real
    assert set(OWNED) <= real | {"hub_token", "push_to_hub_token"}


def test_defaults_that_the_batch_arithmetic_needs_are_those_of_the_installed_config() -> None:
    real = {field.name: field.default for field in dataclasses.fields(GRPOConfig)}
    names = (
        "per_device_train_batch_size",
        "gradient_accumulation_steps",
        "num_generations",
        "generation_batch_size",
        "steps_per_generation",
        "max_steps",
        "per_device_eval_batch_size",
        "eval_strategy",
    )
    for name in names:
        assert grpo_value({}, name) == real[name], name
    assert grpo_value({"max_steps": 3}, "max_steps") == 3
