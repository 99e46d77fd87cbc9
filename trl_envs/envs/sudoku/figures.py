"""Sudoku in its own terms, for evaluations."""

from __future__ import annotations

from trl_envs.envs.episode import Episode


def figures(episode: Episode) -> dict[str, float | None]:
    """Cells that were filled, and moves that were refused."""
    facts = episode.facts
    return {"cells filled": facts["filled"], "invalid moves": facts["moves"] - facts["accepted"]}


def game(episode: Episode, opening: str) -> str:
    """The grid, which the first observation shows.

    Args:
        episode: The played episode.
        opening: The first message with the first observation.
    """
    return opening
