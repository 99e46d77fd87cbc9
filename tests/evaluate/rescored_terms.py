"""Terms for rescoring that need more than an episode, or are new."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trl_envs.envs.episode import Episode


def live(environments: Sequence[Any], bonus: float = 1.0, **_: Any) -> list[float]:
    return [bonus for _ in environments]


def calls(episode: Episode, *, each: float = 1.0) -> float:
    return each * len(episode.events)


def absent_fact(episode: Episode) -> float:
    return float(episode.facts["no such fact"])
