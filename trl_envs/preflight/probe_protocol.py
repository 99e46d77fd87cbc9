"""Does each server take the actions that its environment's class sends? Its /schema tells, without a session."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from trl_envs.config.schema import TrainConfig
from trl_envs.envs.game import GameEnvironment
from trl_envs.errors import SessionLost
from trl_envs.preflight.probe_env import Candidate
from trl_envs.preflight.probe_report import Collector
from trl_envs.rollout.schema import fetch_action_fields


def check_protocols(
    config: TrainConfig, servers: Mapping[str, Any], candidates: Sequence[Candidate], collector: Collector
) -> list[Candidate]:
    """Compares the fields that classes send with those that their servers take.

    A server that doesn't tell its schema is left to the checks that open sessions, and so is a class that doesn't say
    what it sends (one written for TRL alone, or without `_protocols`).

    Args:
        config: The run's config.
        servers: `environments` of plan.json.
        candidates: Environments that could be built.
        collector: Takes the findings.

    Returns:
        Those that can play with all their servers; the sessions of the others would only tell the same again.
    """
    playable = []
    for candidate in candidates:
        strangers = _strangers(candidate, config.rollout.connect_timeout_s)
        for url, (missing, taken) in strangers.items():
            key, fix = _fix(candidate, servers[candidate.name])
            message = (
                f"{candidate.name}: {candidate.target.__name__} can't play with {url}: by its /schema the actions "
                f"there lack {missing}; they have {taken}"
            )
            collector.error(key, message, fix)
        if not strangers:
            playable.append(candidate)
    return playable


def _strangers(candidate: Candidate, timeout_s: float) -> dict[str, tuple[str, str]]:
    """By URL of each server that doesn't take the candidate's actions: the fields it lacks, and those it has."""
    target = candidate.target
    if not candidate.opens_sessions or not inspect.isclass(target) or not issubclass(target, GameEnvironment):
        return {}
    strangers = {}
    for url in candidate.urls if target._protocols else ():
        try:
            taken = fetch_action_fields(url, timeout_s, candidate.token)
        except SessionLost:
            continue
        missing = [sorted(protocol - taken) for protocol in target._protocols]
        if all(missing):
            # `metadata` is every OpenEnv action's.
            shown = ", ".join(sorted(taken - {"metadata"})) or "none"
            strangers[url] = ", or else ".join(" and ".join(fields) for fields in missing), shown
    return strangers


def _fix(candidate: Candidate, server: Mapping[str, Any]) -> tuple[str, str]:
    """The key that names the wrong server, and what to do."""
    chosen = next(
        (key for key, used in (("space", "space"), ("image", "image"), ("app", "process")) if server[used]), "url"
    )
    key = f"envs.{candidate.name}.{chosen}"
    if chosen == "app":
        return key, f"name the app that serves this environment's game: {key}=MODULE:APP"
    wrong = f"that is another game's server: correct {key}"
    embedded = f", or use the embedded one: envs.{candidate.name}.url=null server=local"
    return key, wrong + (embedded if candidate.config.app else "")
