"""The shipped recipes: every one with every preset composes, plans and passes the rules, with the published numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trl_envs import paths
from trl_envs.config.compose import compose
from trl_envs.machine import Gpu
from trl_envs.plan.batch import build_batch
from trl_envs.plan.build import build_plan
from trl_envs.plan.facts import MachineFacts
from trl_envs.preflight.rules import check_static

RECIPES = ("catch", "echo", "multi_env", "sudoku", "wordle")
PRESETS = ("24gb", "demo", "full", "smoke")
INSTALLED = {"trl": "1.16.0", "openenv": "0.10.0", "transformers": "5.24.0", "vllm": "0.29.0"}
A100 = Gpu(index=0, name="A100", memory_gib=80.0, compute_capability=8.0)

# TRL's guide to OpenEnv and its example scripts, mid-2026. "sessions" is the generation batch of one process.
PUBLISHED: dict[str, dict[str, Any]] = {
    "echo": {
        "model": "Qwen/Qwen3-0.6B",
        "spaces": {"echo": "openenv/echo_env"},
        "episodes": {"echo": 64},
        "sessions": 8,
        "grpo": {
            "num_generations": 8,
            "per_device_train_batch_size": 8,
            "gradient_accumulation_steps": 1,
            "max_completion_length": 512,
            "learning_rate": 1e-6,
            "num_train_epochs": 1,
        },
        "thinking": False,
    },
    "catch": {
        "model": "Qwen/Qwen2.5-0.5B-Instruct",
        "spaces": {"catch": "openenv/openspiel_env"},
        "episodes": {"catch": 1000},
        "sessions": 32,
        "grpo": {
            "num_generations": 8,
            "per_device_train_batch_size": 2,
            "gradient_accumulation_steps": 16,
            "max_completion_length": 4096,
            "learning_rate": 1e-6,
            "num_train_epochs": 1,
            "vllm_gpu_memory_utilization": 0.2,
        },
        "thinking": False,
    },
    "wordle": {
        "model": "openenv/Qwen3-1.7B-Wordle-SFT",
        "spaces": {"wordle": "openenv/wordle"},
        "episodes": {"wordle": 600},
        "sessions": 64,
        "grpo": {
            "num_generations": 16,
            "per_device_train_batch_size": 8,
            "gradient_accumulation_steps": 8,
            "max_completion_length": 4096,
            "max_tool_calling_iterations": 12,
            "learning_rate": 1e-6,
            "lr_scheduler_type": "constant",
            "max_steps": 150,
            "vllm_importance_sampling_mode": "token_truncate",
        },
        "thinking": True,
    },
    "sudoku": {
        "model": "Qwen/Qwen3-1.7B",
        "spaces": {"sudoku": "openenv/sudoku"},
        "episodes": {"sudoku": 1000},
        "sessions": 64,
        "grpo": {
            "num_generations": 8,
            "per_device_train_batch_size": 1,
            "gradient_accumulation_steps": 64,
            "max_completion_length": 16384,
            "learning_rate": 5e-6,
            "warmup_steps": 20,
            "num_train_epochs": 1,
            "save_steps": 10,
            "temperature": 0.8,
            "top_k": 10,
            "vllm_gpu_memory_utilization": 0.15,
        },
        "thinking": False,
    },
    "multi_env": {
        "model": "Qwen/Qwen3-1.7B",
        "spaces": {"wordle": "openenv/wordle", "catch": "openenv/openspiel_env"},
        "episodes": {"wordle": 500, "catch": 500},
        "sessions": 32,
        "grpo": {
            "num_generations": 8,
            "per_device_train_batch_size": 8,
            "gradient_accumulation_steps": 4,
            "max_completion_length": 1024,
            "learning_rate": 1e-6,
        },
        "thinking": False,
    },
}
# Reward terms with their weights and numbers.
TERMS: dict[str, dict[str, dict[str, float]]] = {
    "echo": {"length": {"weight": 1, "per_character": 0.1}},
    "catch": {"caught": {"weight": 1}},
    "wordle": {
        "win": {"weight": 1, "speed_bonus": 0.5},
        "partial": {"weight": 1, "per_green": 0.1},
        "invalid": {"weight": 1, "penalty": 0.1},
    },
    "sudoku": {
        "empty_cell": {"weight": 1},
        "valid_move": {"weight": 1, "warned": -0.5},
        "repetition": {"weight": 1, "most": 10},
        "progress": {"weight": 1},
        "solved": {"weight": 1},
    },
}


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def facts(*gpus: Gpu) -> MachineFacts:
    return MachineFacts(
        gpus=list(gpus),
        mps=False,
        vllm="0.29.0" if gpus else None,
        free_port=lambda host: 8765,
        variables={},
        versions=INSTALLED,
    )


def test_these_are_all_recipes_and_presets() -> None:
    assert sorted(path.stem for path in paths.recipes_dir().glob("*.yaml")) == sorted(RECIPES)
    assert sorted(path.stem for path in (paths.configs_dir() / "preset").glob("*.yaml")) == sorted(PRESETS)


@pytest.mark.parametrize("machine", [facts(), facts(A100)], ids=["cpu", "gpu"])
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_with_every_preset_passes_the_rules_and_can_be_planned(
    recipe: str, preset: str, machine: MachineFacts
) -> None:
    composed = compose([f"recipe={recipe}", f"preset={preset}"])
    assert [f for f in check_static(composed.config, machine) if f.level == "error"] == []
    plan = build_plan(composed.config, machine, Path("/runs/one"), composed.import_folders)
    assert plan.mode == ("colocate" if machine.gpus and preset in ("full", "24gb") else "single")
    assert set(plan.environments) == set(PUBLISHED[recipe]["episodes"])
    for environment in plan.environments.values():
        assert environment.process is not None
        assert int(environment.process.variables["MAX_CONCURRENT_ENVS"]) > plan.batch.sessions


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipes_numbers_are_the_published_ones(recipe: str) -> None:
    config, published = compose([f"recipe={recipe}"]).config, PUBLISHED[recipe]
    assert config.model.path == published["model"]
    assert {name: env.space for name, env in config.envs.items()} == published["spaces"]
    assert {name: env.episodes for name, env in config.envs.items()} == published["episodes"]
    assert {name: config.grpo[name] for name in published["grpo"]} == published["grpo"]
    assert config.grpo["chat_template_kwargs"] == {"enable_thinking": published["thinking"]}
    assert build_batch(config).sessions == published["sessions"]
    for name, env in config.envs.items():
        terms = {
            term: {key: value for key, value in numbers.items() if key != "_target_"}
            for term, numbers in env.rewards.items()
        }
        assert terms == TERMS[name]
