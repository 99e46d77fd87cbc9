"""A config that was written down once, and what overrides may still change in it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from trl_envs.config.compose import Composed, apply_settings, checked_config
from trl_envs.config.overrides import Choice, Setting, check_choice, parse_override
from trl_envs.config.recipes import import_folders
from trl_envs.config.schema import JobMode, LaunchMode, ServerMode, TrainConfig
from trl_envs.config.store import escaped, load_config, to_plain
from trl_envs.errors import ConfigError

# The groups of which a written config holds what came of them, and not the choice.
FIXED_GROUPS = ("recipe", "preset", "model")


def compose_frozen(path: Path, arguments: Sequence[str], recipe_dirs: Sequence[Path] = ()) -> Composed:
    """A run of a config file, such as the config.yaml of another run.

    Args:
        path: A file that `to_yaml` wrote.
        arguments: Overrides as typed.
        recipe_dirs: Folders from which its `_target_`s may be imported, besides the current one.

    Raises:
        ConfigError: It is no such file, or an override can't be made.
    """
    reason = f"{path} holds a whole config"
    _refuse_no_config(path)
    config = changed_config(load_config(path), arguments, reason, "for another recipe, leave --config out: recipe=NAME")
    return Composed(config, (f"--config={path}", *arguments), tuple(import_folders(recipe_dirs)))


def _refuse_no_config(path: Path) -> None:
    if not path.is_file():
        raise ConfigError(f"--config {path}: there is no such file", "name one, such as runs/first/config.yaml")
    try:
        node = OmegaConf.load(path)
    except (OSError, YAMLError, OmegaConfBaseException) as error:
        hint = "name a file such as runs/first/config.yaml"
        raise ConfigError(f"--config {path} can't be read: {error}", hint) from error
    if isinstance(node, DictConfig) and "recipe" not in node and ("defaults" in node or "envs" in node):
        hint = f"recipe={path.stem} composes it; --recipe-dir {path.parent} tells where it is"
        raise ConfigError(f"--config {path} is a recipe, and no whole config", hint)


def changed_config(before: TrainConfig, arguments: Sequence[str], reason: str, hint: str) -> TrainConfig:
    """A config with overrides over it.

    Args:
        before: The config.
        arguments: Overrides as typed; `server=`, `launch=` and `job=` set the mode.
        reason: Why a recipe, a preset or a model can't be chosen.
        hint: What to do instead.

    Raises:
        ConfigError: An override that can't be made.
    """
    parsed = [parse_override(argument) for argument in arguments]
    settings = [item if isinstance(item, Setting) else _mode(item, reason, hint) for item in parsed]
    return checked_config(apply_settings(OmegaConf.create(literal(before)), settings))


def literal(config: TrainConfig) -> dict[str, object]:
    """Plain containers in which OmegaConf takes no text for an interpolation."""
    plain: dict[str, object] = escaped(to_plain(config))
    return plain


def flat_values(config: TrainConfig) -> dict[str, Any]:
    """Every value of a config by its dotted key; lists and empty groups are values."""
    flat: dict[str, Any] = {}

    def walk(prefix: str, value: Any) -> None:
        if isinstance(value, dict) and value:
            for key, entry in value.items():
                walk(f"{prefix}.{key}" if prefix else str(key), entry)
        else:
            flat[prefix] = value

    walk("", to_plain(config))
    return flat


def _mode(choice: Choice, reason: str, hint: str) -> Setting:
    if choice.group in FIXED_GROUPS:
        raise ConfigError(f"{choice.typed}: {reason}, whose {choice.group} can't be chosen anew", hint)
    modes: dict[str, type[Enum]] = {"server": ServerMode, "launch": LaunchMode, "job": JobMode}
    known = [*modes[choice.group].__members__, *(["none"] if choice.group == "job" else [])]
    check_choice(choice.group, choice.value, known)
    return Setting(f"{choice.group}.mode", choice.typed, None if choice.value == "none" else choice.value)
