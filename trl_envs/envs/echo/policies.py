"""Scripted players of echo."""

from __future__ import annotations

import random
from typing import Any

from trl_envs.envs.episode import Episode

WORDS = ("hello", "world", "echo", "echo", "again", "a", "longer", "message", "for", "you")
LONGEST_WORDS = 12


def random_policy(observation: str, episode: Episode, rng: random.Random) -> tuple[str, dict[str, Any]] | None:
    """Echoes one message of one to ten words, then stops."""
    if episode.facts.get("echoes"):
        return None
    words = rng.choices(WORDS, k=rng.randint(1, 10))
    return "echo", {"message": " ".join(words)}


def solver(observation: str, episode: Episode, rng: random.Random) -> tuple[str, dict[str, Any]] | None:
    """Echoes one message as long as the random policy's longest, then stops: the server rewards length."""
    if episode.facts.get("echoes"):
        return None
    return "echo", {"message": " ".join(["message"] * LONGEST_WORDS)}
