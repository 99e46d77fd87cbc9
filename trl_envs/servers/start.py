"""Environment servers of a run: those it starts, and those that must run already."""

from __future__ import annotations

import time
from collections.abc import Callable
from urllib.error import URLError
from urllib.request import ProxyHandler, Request, build_opener

from trl_envs.errors import StartupError
from trl_envs.plan.launch_plan import EnvironmentPlan, LaunchPlan
from trl_envs.runtime.supervisor import Supervisor

_HEALTH_TIMEOUT_S = 10.0


def start_servers(
    plan: LaunchPlan, supervisor: Supervisor, on_ready: Callable[[str, tuple[str, ...], float], None]
) -> None:
    """Starts the plan's servers, all at once, and waits until each environment's answer.

    Args:
        plan: The launch plan.
        supervisor: Starts and watches them.
        on_ready: Told of each environment's name, URLs and seconds until it answered.

    Raises:
        StartupError: A server died, or didn't answer in time.
        Interrupted: A signal came meanwhile.
    """
    children = {name: supervisor.start(env.process) for name, env in plan.environments.items() if env.process}
    for name, env in plan.environments.items():
        started = time.monotonic()
        if name in children:
            supervisor.wait_ready(children[name])
        else:
            check_answers(name, env)
        on_ready(name, env.urls, time.monotonic() - started)


def check_answers(name: str, env: EnvironmentPlan) -> None:
    """Makes sure that each URL of an environment answers HTTP at all; whether its sessions work is another matter.

    Raises:
        StartupError: One doesn't.
    """
    for url in env.urls:
        # A server that asks for a token answers too: only the session carries it.
        try:
            build_opener(_no_proxy_for(url)).open(Request(f"{url}/health"), timeout=_HEALTH_TIMEOUT_S).close()
        except (URLError, OSError, ValueError) as error:
            if getattr(error, "code", None) in (401, 403):
                continue
            reason = getattr(error, "reason", error)
            raise StartupError(
                f"envs.{name}.url={url} doesn't answer: {reason}",
                f"start that server, correct the URL, or leave it out (envs.{name}.url=null starts the embedded one)",
            ) from error


def _no_proxy_for(url: str) -> ProxyHandler:
    """No proxy for this machine's own servers, the environment's proxies for all others."""
    local = any(url.startswith(f"http://{host}") for host in ("127.", "localhost", "[::1]"))
    return ProxyHandler({}) if local else ProxyHandler()
