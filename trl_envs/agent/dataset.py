"""The data set of a run: prompts, the environment each belongs to, and the seed of its episode."""

from __future__ import annotations

import hashlib
import random
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


def build_mixed_rows(envs: Mapping[str, EnvConfig], groups: Mapping[str, int], seed: int) -> list[dict[str, Any]]:
    """The same rows, ordered so that each generation batch holds so many of each environment.

    To be sampled in this order (`shuffle_dataset=False`). As many whole batches as the environment that runs out first
    allows; what the others have more is left out.

    Args:
        envs: Environments by name.
        groups: Rows of each environment in one generation batch; a row is a group.
        seed: Of the order within a batch.
    """
    rows = build_rows(envs)
    queues = {name: [row for row in rows if row["environment"] == name] for name in groups}
    rng = random.Random(seed)
    ordered: list[dict[str, Any]] = []
    for batch in range(min(len(queues[name]) // number for name, number in groups.items())):
        chunk = [row for name, number in groups.items() for row in queues[name][batch * number : (batch + 1) * number]]
        rng.shuffle(chunk)
        ordered += chunk
    return ordered


def messages(env: EnvConfig) -> list[dict[str, str]]:
    """The conversation before the model's first turn."""
    system = [{"role": "system", "content": env.system_prompt}] if env.system_prompt else []
    return [*system, {"role": "user", "content": env.prompt}]
