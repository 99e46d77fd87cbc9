"""The config of a run that goes on: what it was started with, and what may be changed on the way."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from omegaconf import OmegaConf

from trl_envs.config.compose import Composed
from trl_envs.config.frozen import changed_config, literal
from trl_envs.config.schema import TrainConfig
from trl_envs.config.store import load_config
from trl_envs.errors import ConfigError

# A resumed run takes up the model, the optimizer and the order of prompts where the checkpoint left them. Whatever
# these follow from is fixed; all else may change.
FIXED = ("recipe", "preset", "seed", "run_name", "output_dir", "model", "mix", "launch.processes")
FIXED_OF_ENVIRONMENT = ("environment", "prompt", "system_prompt", "episodes", "seed")
FIXED_OF_GRPO = (
    "per_device_train_batch_size",
    "gradient_accumulation_steps",
    "num_generations",
    "generation_batch_size",
    "steps_per_generation",
    "num_iterations",
    "shuffle_dataset",
    "data_seed",
)
MAY_CHANGE = "server, rollout, launch, watch, logging, eval, reward terms, and the other grpo fields"


def resumed(run_dir: Path, arguments: Sequence[str], import_folders: Sequence[str]) -> Composed:
    """The config of a run directory, changed by overrides.

    Args:
        run_dir: A run directory.
        arguments: Overrides as typed.
        import_folders: Folders from which the run's `_target_`s are imported.

    Raises:
        ConfigError: The directory holds no run, or an override changes what is fixed.
    """
    before = load_config(run_dir / "config.yaml")
    config = changed_config(before, arguments, "a run is resumed", f"what may change: {MAY_CHANGE}")
    changed = _changed(before, config)
    if changed:
        raise ConfigError(
            f"{', '.join(changed)} can't change in a resumed run: the checkpoint's model, optimizer and order of "
            "prompts follow from it",
            f"what may change: {MAY_CHANGE}; for the rest, start a new run (model={run_dir} goes on from its weights)",
        )
    return Composed(config, tuple(arguments), tuple(import_folders))


def _changed(before: TrainConfig, after: TrainConfig) -> list[str]:
    """Fixed keys whose values differ."""
    old, new = (OmegaConf.create(literal(config)) for config in (before, after))
    keys = [*FIXED, *(f"grpo.{name}" for name in FIXED_OF_GRPO)]
    keys += [f"envs.{name}.{key}" for name in before.envs for key in FIXED_OF_ENVIRONMENT]
    found = [key for key in keys if OmegaConf.select(old, key) != OmegaConf.select(new, key)]
    return found + [f"envs.{name}" for name in before.envs.keys() ^ after.envs.keys()]
