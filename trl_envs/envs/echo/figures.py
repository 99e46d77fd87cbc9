"""Echo: which games are the same, for evaluations."""

from __future__ import annotations

from trl_envs.envs.episode import Episode


def game(episode: Episode, opening: str) -> str:
    """All are the same: there is nothing to draw.

    Args:
        episode: The played episode.
        opening: The first message with the first observation.
    """
    return opening
