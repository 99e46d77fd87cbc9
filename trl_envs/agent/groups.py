"""Groups of rollouts, which GRPO compares with each other: do they play the same game?"""

from __future__ import annotations

from collections.abc import Sequence

from trl_envs.envs.episode import Episode


def differing_games(episodes: Sequence[Episode], group_size: int) -> float:
    """Share of groups in which the same first call had different results.

    Args:
        episodes: Group after group.
        group_size: Episodes a group.

    Returns:
        0.0 to 1.0; groups without two equal first calls aren't counted, and 0.0 if none are left.
    """
    groups = [episodes[start : start + group_size] for start in range(0, len(episodes), group_size)]
    found = [differs for group in groups if (differs := _differs(group)) is not None]
    return sum(found) / len(found) if found else 0.0


def _differs(group: Sequence[Episode]) -> bool | None:
    """Whether one first call had several results; None if no two first calls are equal."""
    results: dict[str, list[str]] = {}
    for episode in group:
        if episode.events and episode.lost is None:
            first = episode.events[0]
            call = f"{first.tool} {sorted(first.arguments.items(), key=lambda pair: pair[0])}"
            results.setdefault(call, []).append(str(first.result if first.error is None else first.error))
    compared = [answers for answers in results.values() if len(answers) > 1]
    return any(len(set(answers)) > 1 for answers in compared) if compared else None
