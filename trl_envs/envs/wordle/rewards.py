"""Reward terms of wordle."""

from __future__ import annotations

from trl_envs.envs.episode import Episode


def win(episode: Episode, *, speed_bonus: float = 0.5) -> float:
    """1.0 for the word found and more the sooner it was; else 0.0.

    Args:
        episode: The played episode.
        speed_bonus: What is added at most, in proportion to the attempts left: 0.5 makes 1.42 of a win in one guess of
            six and 1.0 of one in six.
    """
    facts = episode.facts
    return 1.0 + speed_bonus * (1.0 - facts["guesses"] / facts["attempts"]) if facts.get("won") else 0.0


def partial(episode: Episode, *, per_green: float = 0.1) -> float:
    """For a game that wasn't won, what its best guess is worth, whether or not the game ended; 0.0 for a win.

    Args:
        episode: The played episode.
        per_green: For each letter in its place.
    """
    return 0.0 if episode.facts.get("won") else per_green * float(episode.facts.get("greens", 0))


def invalid(episode: Episode, *, penalty: float = 0.1) -> float:
    """What the invalid moves cost, zero or less.

    Args:
        episode: The played episode.
        penalty: For each: made-up words, repeated words, and what isn't a word of the right length.
    """
    return 0.0 - penalty * float(episode.facts.get("invalid", 0))
