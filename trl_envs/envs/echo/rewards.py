"""Reward terms of echo."""

from __future__ import annotations

from trl_envs.envs.episode import Episode


def length(episode: Episode, *, per_character: float = 0.1) -> float:
    """The server's reward for the last echo, which grows with the message's length.

    Args:
        episode: The played episode.
        per_character: What a character is worth where the server gives no reward of its own (the MCP server); the
            typed server's own number is 0.1.

    Returns:
        0.0 if nothing was echoed.
    """
    for event in reversed(episode.events):
        if event.result is not None:
            return per_character * len(event.result) if event.reward is None else event.reward
    return 0.0
