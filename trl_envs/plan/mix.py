"""The share of each environment in a generation batch, kept exactly: how many of its groups are whose."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction

from trl_envs.config.schema import EnvConfig
from trl_envs.plan.problem import Problem


def groups_of(mix: Mapping[str, float], groups: int) -> dict[str, int]:
    """Groups of each environment in a generation batch of so many; a mix that can't be kept exactly isn't rounded.

    Args:
        mix: Shares by environment, such as `{wordle: 1, catch: 1}`; any unit.
        groups: Groups of a generation batch.

    Raises:
        ValueError: The shares don't come out even.
    """
    shares = _shares(mix)
    found = {name: share * groups for name, share in shares.items()}
    if any(number.denominator != 1 for number in found.values()):
        raise ValueError(f"{dict(mix)} doesn't come out even in {groups} groups")
    return {name: int(number) for name, number in found.items()}


def mix_problems(mix: Mapping[str, float], envs: Mapping[str, EnvConfig], groups: int) -> Iterator[Problem]:
    """Why a mix can't be kept exactly in every generation batch.

    Args:
        mix: Shares by environment.
        envs: Environments by name.
        groups: Groups of a generation batch.
    """
    left_out = [name for name in envs if not mix.get(name)]
    if left_out:
        message = f"mix gives {', '.join(left_out)} no share, and its episodes would never be played"
        yield Problem("mix", message, f"set mix.{left_out[0]}=1, or mix=null to leave the shares to chance")
        return
    unit = math.lcm(*(share.denominator for share in _shares(mix).values()))
    if groups % unit:
        yield Problem(
            "mix",
            f"mix={_written(mix)} can't be kept exactly in a generation batch of {groups} group(s)",
            f"make it a multiple of {unit} groups (grpo.gradient_accumulation_steps), or set mix=null",
        )
        return
    for name, number in groups_of(mix, groups).items():
        if envs[name].episodes < number:
            key = f"envs.{name}.episodes"
            message = f"{key}={envs[name].episodes}: one generation batch takes {number} of them"
            yield Problem(key, message, f"set {key}={number} or more")


def _shares(mix: Mapping[str, float]) -> dict[str, Fraction]:
    parts = {name: Fraction(str(value)) for name, value in mix.items() if value}
    total = sum(parts.values(), Fraction(0))
    return {name: part / total for name, part in parts.items()}


def _written(mix: Mapping[str, float]) -> str:
    return "{" + ", ".join(f"{name}: {value:g}" for name, value in mix.items()) + "}"
