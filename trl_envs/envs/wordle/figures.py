"""Wordle in its own terms, for evaluations."""

from __future__ import annotations

from trl_envs.envs.episode import Episode


def figures(episode: Episode) -> dict[str, float | None]:
    """Attempts that a won game took, and words that weren't taken."""
    facts = episode.facts
    return {"guesses per win": facts["guesses"] if facts["won"] else None, "invalid guesses": facts["invalid"]}


def game(episode: Episode, opening: str) -> str:
    """Which word it was, as far as play can tell: seeds of one word give the same feedback to the same guesses.

    Args:
        episode: The played episode.
        opening: The first message with the first observation, which is the same for all words.
    """
    if not episode.facts["guesses"]:
        return f"seed {episode.seed}"
    return "\n".join(f"{event.arguments} {event.result or event.error}" for event in episode.events)
