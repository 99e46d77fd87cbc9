"""Environments that a Space of the Hub serves: finding it, and waiting until it runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from trl_envs.config.schema import ServerConfig
from trl_envs.config.token import sends_token_to_space, token_for
from trl_envs.errors import PreflightError, StartupError
from trl_envs.plan.launch_plan import EnvironmentPlan, LaunchPlan
from trl_envs.servers.health import ANSWER_TIMEOUT_S, why_silent
from trl_envs.servers.hub import Hub, HubUser, RefusedByHubError, SpaceRecord
from trl_envs.servers.patience import NoAnswerError, answer_of

POLL_S = 2.0
TELL_S = 15.0

# Stages that end by somebody's hand only, and what that hand has to do.
BROKEN = {
    "PAUSED": "it is paused: its owner must restart it",
    "STOPPED": "it is stopped: its owner must restart it",
    "RUNTIME_ERROR": "its server crashed: its owner must look at its log and restart it",
    "BUILD_ERROR": "it couldn't be built: its owner must look at its build log",
    "CONFIG_ERROR": "its README.md isn't the configuration of a Space",
    "NO_APP_FILE": "there is no server in it",
    "DELETING": "it is being deleted",
}
PASSING = {
    "SLEEPING": "sleeps; waking it",
    "BUILDING": "is being built",
    "RUNNING_BUILDING": "is being built anew",
    "APP_STARTING": "starts",
    "RUNNING_APP_STARTING": "starts anew",
    "RUNNING": "runs, and its server doesn't answer yet",
}


@dataclass(frozen=True)
class Found:
    """What the Hub said.

    Args:
        plan: With the addresses of the Spaces, whether they want the token, whose they are, and what they declare.
        user: Whose token it is; None if nobody knows.
    """

    plan: LaunchPlan
    user: HubUser | None


def find_spaces(plan: LaunchPlan, server: ServerConfig, hub: Hub) -> Found:
    """Asks the Hub for the Spaces of a plan, each once; waits for none of them.

    Args:
        plan: The launch plan.
        server: Names the token's variable.
        hub: Is asked.

    Raises:
        PreflightError: There is no such Space, or it is private and there is no token for it.
        StartupError: The Hub can't be reached, or a Space is broken.
    """
    wanted = {name: env for name, env in plan.environments.items() if env.space}
    if not wanted:
        return Found(plan, None)
    records: dict[str, SpaceRecord] = {}
    declared: dict[str, int | None] = {}
    for name, env in wanted.items():
        space = str(env.space)
        if space not in records:
            records[space] = _record(name, space, server, hub)
            declared[space] = hub.declared_sessions(space)
    user = hub.user()
    located = {
        name: replace(
            _located(env, records[str(env.space)]),
            declared=declared[str(env.space)],
            shared=user is None or not user.owns(str(env.space)),
        )
        for name, env in wanted.items()
    }
    return Found(plan.with_servers(located), user)


def await_spaces(plan: LaunchPlan, server: ServerConfig, hub: Hub, tell: Callable[[str, str], None]) -> LaunchPlan:
    """Waits until the plan's Spaces run and answer; a request wakes one that sleeps.

    Args:
        plan: With what `find_spaces` found.
        server: Gives the time limit and the token.
        hub: Is asked how far they are.
        tell: Told of an environment's name and of what is being waited for.

    Returns:
        The plan with the address of each.

    Raises:
        StartupError: One is broken, or takes too long.
        Interrupted: A signal came meanwhile.
    """
    running: dict[str, SpaceRecord] = {}
    for name, env in plan.environments.items():
        if env.space and env.space not in running:
            running[env.space] = _running(name, env.space, server, hub, tell)
    return plan.with_servers(
        {name: _located(env, running[env.space]) for name, env in plan.environments.items() if env.space}
    )


def _located(env: EnvironmentPlan, record: SpaceRecord) -> EnvironmentPlan:
    urls = (record.host,) if record.host else ()
    return replace(env, urls=urls, token=bool(record.host) and sends_token_to_space(record.private, str(record.host)))


def _record(name: str, space: str, server: ServerConfig, hub: Hub) -> SpaceRecord:
    """The Hub's record of a Space that can be used, if not at once."""
    key = f"envs.{name}.space"
    try:
        record = hub.space(space)
    except RefusedByHubError as error:
        if error.status not in (401, 403, 404):
            raise
        raise PreflightError(
            f"{key}={space}: no such Space, or one that this token may not see: {error.reason} ({error.status})",
            f"correct {key}=OWNER/NAME; for a private Space export a token that may read it, {server.token_env}=...; "
            f"or use the embedded server, envs.{name}.server=local",
        ) from error
    if record.private and token_for(server) is None:
        raise PreflightError(
            f"{key}={space} is private, and the variable {server.token_env} holds no token for its sessions",
            f"export {server.token_env}=$(hf auth token), or name another variable in server.token_env",
        )
    _refuse_broken(key, record)
    return record


def _refuse_broken(key: str, record: SpaceRecord) -> None:
    if record.stage not in BROKEN:
        return
    said = f"\nthe Hub says: {record.complaint}" if record.complaint else ""
    raise StartupError(
        f"{key}={record.name} can't serve, {BROKEN[record.stage]} ({record.stage}){said}",
        f"see https://huggingface.co/spaces/{record.name}, take another Space ({key}=OWNER/NAME), or use the embedded "
        f"server ({key.removesuffix('space')}server=local)",
    )


def _running(name: str, space: str, server: ServerConfig, hub: Hub, tell: Callable[[str, str], None]) -> SpaceRecord:
    key, started_s = f"envs.{name}.space", time.monotonic()
    told, told_at_s = "", started_s
    while True:
        record = hub.space(space)
        _refuse_broken(key, record)
        silence = _silence(record, server, hub)
        if record.stage == "RUNNING" and not silence:
            return record
        state, now_s = PASSING.get(record.stage, f"is in stage {record.stage}"), time.monotonic()
        if now_s - started_s > server.space_timeout_s:
            raise StartupError(
                f"{key}={space} {state}, and isn't ready after {server.space_timeout_s:g} s"
                + (silence and f": {silence}"),
                f"see https://huggingface.co/spaces/{space}; if it is only slow, raise server.space_timeout_s",
            )
        if state != told or now_s - told_at_s > TELL_S:
            told, told_at_s = state, now_s
            tell(name, f"{space} {state} ({now_s - started_s:.0f} s of {server.space_timeout_s:.0f} s)")
        _pause(hub)


def _silence(record: SpaceRecord, server: ServerConfig, hub: Hub) -> str:
    """Asks a Space's server for its health, which wakes one that sleeps; why it doesn't answer."""
    if record.host is None:
        return "it has no address yet"
    host, token = record.host, token_for(server) if sends_token_to_space(record.private, record.host) else None
    try:
        return answer_of(lambda: why_silent(host, token=token), 2 * ANSWER_TIMEOUT_S, hub.check)
    except NoAnswerError:
        # Finding the address of a name has no time limit of its own.
        return "no answer"


def _pause(hub: Hub) -> None:
    until_s = time.monotonic() + POLL_S
    while time.monotonic() < until_s:
        hub.check()
        time.sleep(min(0.1, POLL_S))
