"""Capacity: no server publishes it, so the only proof is to open as many sessions as the run will, and hold them."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from trl_envs.config.schema import RolloutConfig, TrainConfig
from trl_envs.errors import ServerFull, SessionError
from trl_envs.plan.batch import fitting_overrides
from trl_envs.preflight.probe_env import CAPACITY_WAIT_S, Candidate
from trl_envs.preflight.probe_report import Collector
from trl_envs.preflight.space_rules import copy_command
from trl_envs.rollout.session import Session, SessionOpener, SessionSettings

# Handshakes are small, and a server that resets slowly isn't hurried by more of them.
THREADS = 16


@dataclass
class Opened:
    """Sessions that were opened together.

    Args:
        sessions: Those that could be had, all still open.
        reset_s: Seconds from connecting to the first observation, one for each.
        error: Why there are no more; None if there are as many as wanted.
    """

    sessions: list[Session] = field(default_factory=list)
    reset_s: list[float] = field(default_factory=list)
    error: SessionError | None = None

    def close(self) -> None:
        """Closes them all; the server frees their slots at once."""
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(Session.close, self.sessions))


def check_capacity(
    config: TrainConfig,
    servers: Mapping[str, Any],
    candidates: Sequence[Candidate],
    collector: Collector,
    *,
    all_sessions: bool,
) -> None:
    """Opens the sessions that the run needs on each server, or group of servers, all at once, and closes them again.

    Args:
        config: The run's config.
        servers: `environments` of plan.json.
        candidates: Environments that could be built.
        collector: Takes findings and the figure `capacity`, one entry a group of servers.
        all_sessions: Whether servers that may be somebody else's are to be tried with all sessions too, not with one.
    """
    figures = []
    for group in sharing([candidate for candidate in candidates if candidate.opens_sessions]):
        needed = {candidate.name: int(servers[candidate.name]["sessions"]) for candidate in group}
        asked = needed
        shared = next((candidate for candidate in group if servers[candidate.name]["shared"]), None)
        if shared is not None and not all_sessions:
            asked = dict.fromkeys(list(needed)[:1], 1)
            collector.warning(
                f"envs.{shared.name}.{'space' if servers[shared.name]['space'] else 'url'}",
                f"{', '.join(shared.urls)} may be somebody else's: whether it takes {sum(needed.values())} sessions "
                "wasn't tried",
                "add --probe to open all of them for a moment, as the run will",
            )
        with collector.doing(f"opening {sum(asked.values())} session(s) with {', '.join(group[0].urls)}"):
            figures.append(_try_group(config, servers, group, asked, collector))
        figures[-1] |= {"needed": sum(needed.values()), "tried": sum(asked.values())}
    collector.figure("capacity", figures)


def sharing(candidates: Sequence[Candidate]) -> list[list[Candidate]]:
    """Environments in groups, those with a URL in common together: they share its sessions."""
    groups: list[list[Candidate]] = []
    for candidate in candidates:
        common = [g for g in groups if any(set(other.urls) & set(candidate.urls) for other in g)]
        merged = [*itertools.chain.from_iterable(common), candidate]
        groups = [*(g for g in groups if g not in common), merged]
    return groups


def _try_group(
    config: TrainConfig,
    servers: Mapping[str, Any],
    group: Sequence[Candidate],
    needed: Mapping[str, int],
    collector: Collector,
) -> dict[str, Any]:
    settings = session_settings(config.rollout)
    openers = {c.name: SessionOpener(c.urls, settings, c.token) for c in group}
    # All of one group of rollouts share a seed; here one seed does, since what is tried is the number.
    jobs = [openers[name] for name, sessions in needed.items() for _ in range(sessions)]
    opened = open_all(jobs)
    opened.close()
    wanted, found, reset_s = len(jobs), len(opened.sessions), opened.reset_s
    again = open_all(jobs[:found])
    again.close()
    if opened.error is not None:
        _report_missing(config, servers, group, wanted, found, opened.error, collector)
    elif again.error is not None:
        collector.error(
            f"envs.{group[0].name}.url",
            f"{', '.join(group[0].urls)}: of {found} sessions that were closed only {len(again.sessions)} could be "
            f"opened again within {CAPACITY_WAIT_S:g} s, which the run does at every step: {again.error.message}",
            "the server must free a session when its connection closes; look at its log",
        )
    return {
        "environments": [candidate.name for candidate in group],
        "urls": sorted({url for candidate in group for url in candidate.urls}),
        "found": found,
        "reset_s": latency([*reset_s, *again.reset_s]),
    }


def open_all(openers: Sequence[SessionOpener]) -> Opened:
    """Opens and resets a session with each, several at a time; gives up when one can't be had."""
    stop = Event()

    def open_one(opener: SessionOpener) -> tuple[Session, float] | SessionError | None:
        if stop.is_set():
            return None
        started_s = time.perf_counter()
        try:
            session, _ = opener(seed=0)
        except SessionError as error:
            stop.set()
            return error
        return session, time.perf_counter() - started_s

    opened = Opened()
    with ThreadPoolExecutor(THREADS) as pool:
        for result in pool.map(open_one, openers):
            if isinstance(result, SessionError):
                # The server's word on its capacity says more than a connection that failed beside it.
                if opened.error is None or isinstance(result, ServerFull):
                    opened.error = result
            elif result is not None:
                opened.sessions.append(result[0])
                opened.reset_s.append(result[1])
    return opened


def session_settings(rollout: RolloutConfig) -> SessionSettings:
    """The run's time limits, with a short wait for a free session."""
    return SessionSettings(
        connect_timeout_s=rollout.connect_timeout_s,
        call_timeout_s=rollout.call_timeout_s,
        capacity_wait_s=min(rollout.capacity_wait_s, CAPACITY_WAIT_S),
        ping_interval_s=rollout.ping_interval_s,
        ping_timeout_s=rollout.ping_timeout_s,
    )


def latency(seconds: Sequence[float]) -> dict[str, float] | None:
    """Median and 95th percentile (nearest rank) in seconds; None without a measurement."""
    if not seconds:
        return None
    ranked = sorted(seconds)
    p95 = ranked[-(-95 * len(ranked) // 100) - 1]
    return {"median": round(statistics.median(ranked), 5), "p95": round(p95, 5)}


def _report_missing(
    config: TrainConfig,
    servers: Mapping[str, Any],
    group: Sequence[Candidate],
    wanted: int,
    found: int,
    error: SessionError,
    collector: Collector,
) -> None:
    names = " and ".join(candidate.name for candidate in group)
    first = servers[group[0].name]
    key = f"envs.{group[0].name}.{'space' if first['space'] else 'url'}"
    if not isinstance(error, ServerFull):
        message = f"{names}: {found} of {wanted} sessions could be opened: {error.message}"
        collector.error(key, message, error.hint or "look at the server's log")
        return
    ways = [_way_to_more(config, servers, group, wanted)]
    if all(candidate.config.app for candidate in group):
        ways.append(f"serve it with trl-env: trl-env serve recipe={config.recipe} --sessions {wanted}")
    fewer = fitting_overrides(config, found // len(group))
    if fewer:
        ways.append(f"ask for fewer: {fewer}")
    collector.error(
        key, f"{names}: {wanted} sessions needed at once, {found} found ({error.message})", "; or ".join(ways)
    )


def _way_to_more(config: TrainConfig, servers: Mapping[str, Any], group: Sequence[Candidate], wanted: int) -> str:
    """How the servers of a group come to take more sessions."""
    if any(servers[candidate.name]["process"] for candidate in group):
        return "let the server's app take its number of sessions from MAX_CONCURRENT_ENVS, which trl-env sets"
    name = group[0].name
    if servers[name]["space"]:
        copy = copy_command(config, name, servers[name]["space"], None, sessions=wanted)
        return f"raise the Space's MAX_CONCURRENT_ENVS above {wanted}, or take a copy of your own: {copy}"
    if len(group[0].urls) > 1:
        return f"name more servers in the list, or restart them with MAX_CONCURRENT_ENVS, {wanted} or more in all"
    return f"restart the server with MAX_CONCURRENT_ENVS={wanted} or more"
