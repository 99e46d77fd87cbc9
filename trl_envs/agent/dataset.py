"""The data set of a run: prompts, the environment each belongs to, and the seed of its episode."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from trl_envs.config.schema import EnvConfig


def episode_seed(seed: int, environment: str, index: int) -> int:
    """Seed of the index-th episode: 31 bits, and unrelated between neighbours, environments and run seeds."""
    digest = hashlib.sha256(f"{seed}/{environment}/{index}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def build_rows(envs: Mapping[str, EnvConfig]) -> list[dict[str, Any]]:
    """Rows of the data set, one an episode seed.

    Each holds `prompt` (messages; TRL appends what `reset` returns to the last one), `environment` (which TRL uses to
    choose among the factories) and `seed` (handed to `reset`: all rollouts of a group come from one row, and so play
    the same episode).
    """
    return [
        {"prompt": messages(env), "environment": name, "seed": episode_seed(env.seed, name, index)}
        for name, env in envs.items()
        for index in range(env.episodes)
    ]


def messages(env: EnvConfig) -> list[dict[str, str]]:
    """The conversation before the model's first turn."""
    system = [{"role": "system", "content": env.system_prompt}] if env.system_prompt else []
    return [*system, {"role": "user", "content": env.prompt}]
