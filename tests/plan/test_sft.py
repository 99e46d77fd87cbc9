"""A warm-up, planned and checked before anything starts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trl_envs.config.compose import compose
from trl_envs.config.schema import TrainConfig
from trl_envs.machine import Gpu
from trl_envs.plan.facts import MachineFacts
from trl_envs.plan.sft import build_sft_plan
from trl_envs.preflight.sft_rules import check_games, check_sft

CPU = MachineFacts(gpus=[], mps=False, vllm=None, free_port=lambda host: 5000, variables={})
GPUS = replace(CPU, gpus=[Gpu(i, "A100", 80.0, 8.0) for i in range(2)], accelerate_configs=Path("/trl"))


def config(*overrides: str) -> TrainConfig:
    return compose(["recipe=catch", "model=tiny-random", *overrides]).config


def planned(*overrides: str, facts: MachineFacts = CPU, games: int = 10) -> Any:
    return build_sft_plan(config(*overrides), facts, Path("/runs/warm"), [], [Path("data/games.jsonl")], games)


def test_one_process_without_a_server_and_nothing_cut_off() -> None:
    plan = planned()
    assert plan.trainer.argv[1:] == ("-m", "trl_envs.training.warmup", "/runs/warm")
    assert plan.sft == {"use_cpu": True, "bf16": False, "max_length": None, "save_total_limit": 2}
    assert plan.as_dict()["kind"] == "sft" and plan.data == (str(Path("data/games.jsonl").absolute()),)
    assert "max_length" not in planned("sft.max_length=512").sft


@pytest.mark.parametrize(
    ("overrides", "steps"),
    [
        ((), 6),  # SFTConfig's own: 8 a batch, three epochs
        (("sft.max_steps=5",), 5),
        (("sft.per_device_train_batch_size=2", "sft.num_train_epochs=1"), 5),
        (("sft.per_device_train_batch_size=2", "sft.gradient_accumulation_steps=2", "sft.num_train_epochs=1"), 3),
        (("sft.per_device_train_batch_size=2", "sft.num_train_epochs=0.5"), 3),
        (("sft.per_device_train_batch_size=4", "launch.processes=2", "sft.num_train_epochs=1"), 2),
    ],
)
def test_steps_are_counted_as_the_trainer_counts_them(overrides: tuple[str, ...], steps: int) -> None:
    assert planned(*overrides).steps == steps


def test_a_gpu_trains_in_bfloat16_and_several_through_accelerate() -> None:
    assert planned(facts=GPUS).sft["use_cpu"] is False and "bf16" not in planned(facts=GPUS).sft
    assert planned(facts=GPUS).trainer.variables["CUDA_VISIBLE_DEVICES"] == "0"
    argv = planned("launch.processes=2", "launch=server", facts=GPUS).trainer.argv
    assert "accelerate.commands.launch" in argv and "trl_envs.training.warmup" in argv


@pytest.mark.parametrize(
    ("override", "key", "said"),
    [
        ("sft.learning_rate=fast", "sft.learning_rate", "SFTConfig takes a number"),
        ("sft.learning_rate=0", "sft.learning_rate", "must be above 0"),
        ("sft.per_device_train_batch_size=0", "sft.per_device_train_batch_size", "at least 1"),
        ("sft.max_steps=0", "sft.max_steps", "would train for sft.num_train_epochs"),
        ("sft.bf16=true", "sft.bf16", "no GPU is visible"),
        ("sft.eval_strategy=steps", "sft.eval_strategy", "needs a data set"),
        ("sft.lr_scheduler_type=cosin", "sft.lr_scheduler_type", "none of"),
        ("launch.gpus=[3]", "launch.gpus", "3"),
        ("model.lora.rank=4", "model.lora", "saved without the weights"),
        ("model.dtype=float23", "model.dtype", "float32"),
    ],
)
def test_what_cannot_work_is_said_with_its_key(override: str, key: str, said: str) -> None:
    [finding] = check_sft(config(override), CPU)
    assert (finding.key, finding.level) == (key, "error")
    assert said in finding.message and "grpo" not in finding.message + finding.hint


def test_a_sound_warm_up_has_nothing_against_it_whatever_grpo_says() -> None:
    assert check_sft(config("grpo.num_generations=7", "sft.learning_rate=1e-4"), CPU) == []


def test_games_of_another_game_or_prompt_are_refused() -> None:
    asked = config()
    env = asked.envs["catch"]
    shown = {"environment": env.environment, "prompt": env.prompt, "system_prompt": None}
    assert check_games(asked, "data", {"envs": {"catch": shown}}) == []
    [other] = check_games(asked, "data", {"envs": {"catch": {**shown, "prompt": "Play."}}})
    assert other.key == "envs.catch.prompt" and "data" in other.message and "trl-env collect" in other.hint
    [stranger] = check_games(asked, "data", {"envs": {"echo": shown}})
    assert "holds games of echo" in stranger.message
