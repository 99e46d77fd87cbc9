"""Catch: which games are the same, for evaluations."""

from __future__ import annotations

from trl_envs.envs.episode import Episode


def game(episode: Episode, opening: str) -> str:
    """Where ball and paddle start, of which all else follows: five places in all.

    Args:
        episode: The played episode.
        opening: The first message with the first observation.
    """
    return opening
