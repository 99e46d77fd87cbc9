"""Reward terms of catch."""

from __future__ import annotations

from trl_envs.envs.episode import Episode


def caught(episode: Episode) -> float:
    """1.0 if the ball was caught, 0.0 if it was missed or the game wasn't played to its end."""
    return 1.0 if episode.facts.get("caught") else 0.0
