"""Environment servers of a run: those it starts, and those that must run already. Spaces are awaited in space.py."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from trl_envs.config.schema import RolloutConfig, ServerConfig
from trl_envs.config.token import token_for
from trl_envs.errors import StartupError
from trl_envs.plan.launch_plan import EnvironmentPlan, LaunchPlan
from trl_envs.runtime.child import Child
from trl_envs.runtime.supervisor import Supervisor
from trl_envs.servers.health import Heart, Heartbeat, why_silent


def start_servers(
    plan: LaunchPlan, supervisor: Supervisor, on_ready: Callable[[str, tuple[str, ...], float], None]
) -> dict[str, Child]:
    """Starts the plan's servers, all at once, and waits until each environment's answer.

    Args:
        plan: The launch plan.
        supervisor: Starts and watches them.
        on_ready: Told of each environment's name, URLs and seconds until it answered.

    Returns:
        The started servers by environment.

    Raises:
        StartupError: A server died, or didn't answer in time.
        Interrupted: A signal came meanwhile.
    """
    children = {name: supervisor.start(env.process) for name, env in plan.environments.items() if env.process}
    for name, env in plan.environments.items():
        if not env.urls:
            continue
        started = time.monotonic()
        if name in children:
            supervisor.wait_ready(children[name])
        elif env.space is None:
            check_answers(name, env)
        on_ready(name, env.urls, time.monotonic() - started)
    return children


def check_answers(name: str, env: EnvironmentPlan) -> None:
    """Makes sure that each URL of an environment answers HTTP at all; whether its sessions work is another matter.

    Raises:
        StartupError: One doesn't.
    """
    for url in env.urls:
        reason = why_silent(url)
        if reason:
            raise StartupError(
                f"envs.{name}.url={url} doesn't answer: {reason}",
                f"start that server, correct the URL, or leave it out (envs.{name}.url=null starts the embedded one)",
            )


def heartbeat(
    plan: LaunchPlan, children: Mapping[str, Child], server: ServerConfig, rollout: RolloutConfig
) -> Heartbeat:
    """What listens to the servers of a run while it lasts.

    A server that is somebody else's may restart meanwhile: resets are tried again for `rollout.capacity_wait_s`.

    Args:
        plan: The launch plan.
        children: The servers that the run started, by environment.
        server: Gives the patience, and the token of private servers.
        rollout: Gives the time for which resets are tried again.
    """
    hearts = {}
    for name, env in plan.environments.items():
        child = children.get(name)
        token = token_for(server) if env.token else None
        patience_s = server.heartbeat_timeout_s + (0.0 if child else rollout.capacity_wait_s)
        for number, url in enumerate(env.urls, start=1):
            label = name if len(env.urls) == 1 else f"{name} (URL {number})"
            what, log = f"the environment server of {label}", child.describe_log if child else None
            hearts[label] = Heart(what, url, patience_s, log, token)
    return Heartbeat(hearts)
