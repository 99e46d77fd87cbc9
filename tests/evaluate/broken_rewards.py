"""Reward terms for catch that are broken in one way each."""

from __future__ import annotations

from typing import Any

from trl_envs.envs.episode import Episode


def caught(episode: Episode) -> float:
    return float(bool(episode.facts.get("caught")))


def same(episode: Episode) -> float:
    return 0.5


def minus_caught(episode: Episode) -> float:
    return -caught(episode)


def missed(episode: Episode) -> float:
    return float(episode.done and not caught(episode))


def each_move_hurts(episode: Episode) -> float:
    return -1.0 * len(episode.events)


def by_seed(episode: Episode) -> float:
    return float((episode.seed or 0) % 5)


def none_if_missed(episode: Episode) -> float | None:
    return 1.0 if caught(episode) else None


def never(episode: Episode) -> None:
    return None


def none_if_idle(environments: list[Any], **_: Any) -> list[float | None]:
    return [caught(env.episode) if env.episode.events else None for env in environments]


def breaks(episode: Episode) -> float:
    return float(episode.facts["no such fact"])
