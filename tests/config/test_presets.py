"""Presets that run anywhere: they win over every recipe, and the command line wins over them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from trl_envs import paths
from trl_envs.config.compose import compose
from trl_envs.config.schema import LaunchMode

RECIPES = sorted(path.stem for path in paths.recipes_dir().glob("*.yaml"))


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def grpo_of(preset: str) -> dict[str, Any]:
    node = OmegaConf.load(paths.configs_dir() / "preset" / f"{preset}.yaml").grpo
    return OmegaConf.to_container(node)  # type: ignore[return-value]


@pytest.mark.parametrize("recipe", RECIPES)
def test_demo_wins_over_every_recipe_and_the_command_line_over_demo(recipe: str) -> None:
    config = compose([f"recipe={recipe}", "preset=demo"]).config
    assert (config.preset, config.model.path, config.launch.mode) == ("demo", "tiny", LaunchMode.single)
    for name, value in grpo_of("demo").items():
        assert config.grpo[name] == value, name
    config = compose([f"recipe={recipe}", "grpo.max_steps=3", "preset=demo", "model=a/b", "eval.episodes=0"]).config
    assert (config.grpo["max_steps"], config.model.path, config.eval.episodes) == (3, "a/b", 0)


def test_demo_leaves_nothing_to_a_recipe_that_smoke_sets_and_proves_enough() -> None:
    assert set(grpo_of("demo")) >= set(grpo_of("smoke"))
    config = compose(["recipe=catch", "preset=demo"]).config
    assert config.eval.episodes >= 200 and config.eval.temperature is None
    # Every prompt is new to the model: no more steps than one pass over the rows makes.
    batch = config.grpo["per_device_train_batch_size"] * config.grpo["gradient_accumulation_steps"]
    assert config.grpo["max_steps"] * batch // config.grpo["num_generations"] <= config.envs["catch"].episodes
