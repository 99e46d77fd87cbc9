"""A config as text and back: what the launcher writes into a run directory and its children read."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from trl_envs.config.keys import takes
from trl_envs.config.schema import TrainConfig
from trl_envs.errors import ConfigError


def to_plain(config: DictConfig | TrainConfig) -> dict[str, Any]:
    """Plain containers, interpolations resolved, enums by name; a missing value is `???`."""
    if isinstance(config, TrainConfig):
        return cast("dict[str, Any]", _plain(dataclasses.asdict(config)))
    return cast("dict[str, Any]", OmegaConf.to_container(config, resolve=True, enum_to_str=True))


def to_config(plain: Mapping[str, Any], source: str = "") -> TrainConfig:
    """The typed config.

    Args:
        plain: Plain containers, as from `to_plain`; texts are taken literally.
        source: The file it came from, for the error.

    Raises:
        ConfigError: A value of the wrong type, or one that is missing.
    """
    try:
        node = OmegaConf.merge(OmegaConf.structured(TrainConfig), OmegaConf.create(escaped(dict(plain))))
        return cast("TrainConfig", OmegaConf.to_object(node))
    except OmegaConfBaseException as error:
        key = str(getattr(error, "full_key", ""))
        raise ConfigError(
            f"{source and source + ': '}{key}: {str(error).splitlines()[0]}", f"{key} takes {takes(key)}"
        ) from error


def to_yaml(config: TrainConfig) -> str:
    """YAML that OmegaConf reads back equal."""
    return OmegaConf.to_yaml(OmegaConf.create(escaped(to_plain(config))))


def load_config(path: Path) -> TrainConfig:
    """Reads a config that `to_yaml` wrote.

    Raises:
        ConfigError: The file is missing, or isn't such a config.
    """
    try:
        node = OmegaConf.load(path)
        plain = OmegaConf.to_container(node, resolve=True)
    except (OSError, YAMLError, OmegaConfBaseException) as error:
        raise ConfigError(f"{path} can't be read: {error}", "name a run directory that trl-env made") from error
    if not isinstance(plain, dict):
        raise ConfigError(f"{path} holds no config", "name a run directory that trl-env made")
    return to_config(cast("dict[str, Any]", plain), str(path))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.name if isinstance(value, Enum) else value


def escaped(value: Any) -> Any:
    """Texts such that a literal `${` isn't taken for an interpolation when read again."""
    if isinstance(value, dict):
        return {key: escaped(item) for key, item in value.items()}
    if isinstance(value, list):
        return [escaped(item) for item in value]
    return value.replace("${", r"\${") if isinstance(value, str) else value
