"""The config of a run that goes on: what it was started with, and what may be changed on the way."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from omegaconf import OmegaConf

from trl_envs.config.compose import Composed, apply_settings, checked_config
from trl_envs.config.overrides import Choice, Setting, check_choice, parse_override
from trl_envs.config.schema import LaunchMode, ServerMode, TrainConfig
from trl_envs.config.store import escaped, load_config, to_plain
from trl_envs.errors import ConfigError

# A resumed run takes up the model, the optimizer and the order of prompts where the checkpoint left them. Whatever
# these follow from is fixed; all else may change.
FIXED_GROUPS = ("recipe", "preset", "model")
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
    parsed = [parse_override(argument) for argument in arguments]
    settings = [item if isinstance(item, Setting) else _mode(item) for item in parsed]
    config = checked_config(apply_settings(OmegaConf.create(_literal(before)), settings))
    changed = _changed(before, config)
    if changed:
        raise ConfigError(
            f"{', '.join(changed)} can't change in a resumed run: the checkpoint's model, optimizer and order of "
            "prompts follow from it",
            f"what may change: {MAY_CHANGE}; for the rest, start a new run (model={run_dir} goes on from its weights)",
        )
    return Composed(config, tuple(arguments), tuple(import_folders))


def _mode(choice: Choice) -> Setting:
    """`server=url` and `launch=single` as settings; the other groups are fixed."""
    if choice.group in FIXED_GROUPS:
        raise ConfigError(
            f"{choice.typed}: the {choice.group} of a resumed run can't change", f"what may change: {MAY_CHANGE}"
        )
    known = ServerMode if choice.group == "server" else LaunchMode
    check_choice(choice.group, choice.value, list(known.__members__))
    return Setting(f"{choice.group}.mode", choice.typed, choice.value)


def _literal(config: TrainConfig) -> dict[str, object]:
    """Plain containers in which OmegaConf takes no text for an interpolation."""
    plain: dict[str, object] = escaped(to_plain(config))
    return plain


def _changed(before: TrainConfig, after: TrainConfig) -> list[str]:
    """Fixed keys whose values differ."""
    old, new = (OmegaConf.create(_literal(config)) for config in (before, after))
    keys = [*FIXED, *(f"grpo.{name}" for name in FIXED_OF_GRPO)]
    keys += [f"envs.{name}.{key}" for name in before.envs for key in FIXED_OF_ENVIRONMENT]
    found = [key for key in keys if OmegaConf.select(old, key) != OmegaConf.select(new, key)]
    return found + [f"envs.{name}" for name in before.envs.keys() ^ after.envs.keys()]
