"""The schema as a tree of dotted keys: what type a key has, what keys lie below one, and what a config has too much."""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

from trl_envs.config.grpo_fields import OWNED, GrpoField, grpo_fields
from trl_envs.config.schema import TrainConfig
from trl_envs.config.sft_fields import SFT_OWNED, sft_fields
from trl_envs.config.suggest import did_you_mean, nearest
from trl_envs.errors import ConfigError

GROUPS = ("recipe", "preset", "model", "server", "launch", "job")
_SECRET = re.compile(r"(^|_)(TOKEN|SECRET|PASSWORD|API_KEY|ACCESS_KEY)$", re.IGNORECASE)


def type_of(key: str) -> Any:
    """The type of a dotted key in the schema: a class, a generic alias, or None where the schema doesn't know it."""
    kind: Any = TrainConfig
    for part in key.split("."):
        kind = _required(kind)
        if dataclasses.is_dataclass(kind):
            kind = typing.get_type_hints(kind).get(part)
        elif typing.get_origin(kind) is dict:
            kind = typing.get_args(kind)[1]
        else:
            return None
    return kind


def is_text(key: str) -> bool:
    """Whether a key holds a string and nothing else (or null)."""
    kind = type_of(key)
    return kind is not None and _required(kind) is str


def takes(key: str) -> str:
    """What a key takes, in words, for a hint."""
    kind = type_of(key)
    inner = _required(kind)
    words = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
    if isinstance(inner, type) and issubclass(inner, Enum):
        said = "one of " + ", ".join(inner.__members__)
    elif inner in words:
        said = words[inner]
    elif typing.get_origin(inner) is list:
        said = f"a list: {key}=[a,b]"
    else:
        said = f"keys of its own: {key}.NAME=VALUE"
    return said if kind is inner else f"{said}, or null"


def all_keys(environments: Mapping[str, Any]) -> list[str]:
    """Every key that a config with these environments may have, TRL's fields included, launcher-owned ones not."""
    found = [key for key, _ in _leaves(TrainConfig, "")]
    found += [f"grpo.{name}" for name in grpo_fields() if name not in OWNED]
    found += [f"sft.{name}" for name in sft_fields() if name not in SFT_OWNED]
    for name in environments:
        found += [f"envs.{name}.{key}" for key, _ in _leaves(typing.get_args(type_of("envs"))[1], "")]
    return found


def check_keys(config: Mapping[str, Any]) -> None:
    """Refuses keys that the schema doesn't have, wherever they came from and at whatever depth.

    Args:
        config: The composed config as plain containers.

    Raises:
        ConfigError: Naming every such key and the nearest real one.
    """
    envs = config.get("envs")
    environments = envs if isinstance(envs, dict) else {}
    problems = [
        (f"there is no key {key}", f"did you mean {nearest_key(key, environments)}?")
        for key in _strays(TrainConfig, config, "")
    ]
    problems += _field_problems("grpo", "GRPOConfig", config.get("grpo"), grpo_fields(), OWNED)
    problems += _field_problems("sft", "SFTConfig", config.get("sft"), sft_fields(), SFT_OWNED)
    problems += _secret_problems(environments)
    if problems:
        raise ConfigError("\n".join(message for message, _ in problems), "\n      ".join(hint for _, hint in problems))


def _required(kind: Any) -> Any:
    """`X | None` as X."""
    if isinstance(kind, types.UnionType):
        inner = [part for part in typing.get_args(kind) if part is not type(None)]
        return inner[0] if len(inner) == 1 else kind
    return kind


def _leaves(kind: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    for name, hint in typing.get_type_hints(kind).items():
        inner = _required(hint)
        yield f"{prefix}{name}", inner
        if dataclasses.is_dataclass(inner):
            yield from _leaves(inner, f"{prefix}{name}.")


def _strays(kind: Any, node: Any, path: str) -> Iterator[str]:
    """Keys of the config that the schema lacks."""
    kind = _required(kind)
    if not isinstance(node, Mapping):
        return
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        for key, value in node.items():
            if key not in hints:
                yield f"{path}{key}"
            else:
                yield from _strays(hints[key], value, f"{path}{key}.")
    elif typing.get_origin(kind) is dict:
        for key, value in node.items():
            yield from _strays(typing.get_args(kind)[1], value, f"{path}{key}.")


def nearest_key(full: str, environments: Mapping[str, Any] | None = None) -> str | None:
    """The real key that was probably meant: the same last part anywhere, else the nearest in the same mapping."""
    known = all_keys(environments or {})
    path, _, leaf = full.rpartition(".")
    prefix = f"{path}." if path else ""
    elsewhere = [key for key in known if key.rpartition(".")[2] == leaf]
    # Both of TRL's configs have the fields of a trainer.
    elsewhere = [key for key in elsewhere if not key.startswith("sft.")] or elsewhere
    beside = [key for key in known if key.startswith(prefix) and "." not in key[len(prefix) :]]
    return nearest(full, elsewhere or beside or known)


def _field_problems(
    section: str, kind: str, values: Any, fields: Mapping[str, GrpoField], owned: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Keys of a section that is open to one of TRL's configs, and that are none of its fields or the launcher's."""
    free = [f"{section}.{name}" for name in fields if name not in owned]
    for name in values if isinstance(values, Mapping) else ():
        if name in owned:
            yield f"{section}.{name} is set by the launcher", f"use {owned[name]}"
        elif name not in fields:
            key = f"{section}.{name}"
            yield f"the installed {kind} has no field {name} ({key})", did_you_mean(key, free)


def _secret_problems(envs: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Environment variables that would carry a secret into config.yaml and plan.json."""
    for name, env in envs.items():
        variables = env.get("variables") if isinstance(env, Mapping) else None
        for variable in variables if isinstance(variables, Mapping) else ():
            if _SECRET.search(str(variable)):
                yield (
                    f"envs.{name}.variables.{variable} would write a secret into the run directory",
                    f"export {variable} in the shell instead: servers inherit the launcher's environment",
                )
