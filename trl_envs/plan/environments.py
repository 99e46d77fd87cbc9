"""Where each environment's sessions come from: a server that is started here, a container, a Space, or addresses."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from trl_envs.config.schema import EnvConfig, ServerMode, TrainConfig
from trl_envs.config.token import sends_token
from trl_envs.plan.facts import MachineFacts
from trl_envs.plan.launch_plan import EnvironmentPlan
from trl_envs.plan.servers import is_public_space, mode_of, needs_no_server, url_list
from trl_envs.plan.spec import ProcessSpec, ReadySpec

READY_KEY = "server.ready_timeout_s"
# Games are Python: whatever they do, one process has one core of it.
SESSIONS_A_WORKER = 32
# Messages are short and the network is the machine itself: compressing them takes a fifth of the wait for 64 sessions.
PLAIN = ("--ws-per-message-deflate", "false")


def plan_environment(
    name: str, config: TrainConfig, sessions: int, facts: MachineFacts, path: Mapping[str, str]
) -> EnvironmentPlan:
    """Plans the server of one environment.

    Args:
        name: Its name in the recipe.
        config: What was asked for.
        sessions: Sessions that the run will hold open with it at once.
        facts: What the machine has.
        path: PYTHONPATH for the server's process, if it needs one.
    """
    env = config.envs[name]
    if env.url is not None:
        urls = tuple(str(url).rstrip("/") for url in url_list(env.url))
        shared = any(is_public_space(url) for url in urls)
        return EnvironmentPlan(urls, sessions, None, token=sends_token(config.server), shared=shared)
    if needs_no_server(env):
        return EnvironmentPlan((), sessions, None, token=False)
    mode = mode_of(env, config)
    if mode is ServerMode.space:
        # Whose it is and whether it wants a token is for the Hub to say, once the run begins.
        return EnvironmentPlan((), sessions, None, token=False, space=env.space, shared=True)
    build = docker_server if mode is ServerMode.docker else local_server
    process = build(name, env, config, sessions, facts, path)
    image = env.image if mode is ServerMode.docker else None
    return EnvironmentPlan((f"http://{process.host}:{process.port}",), sessions, process, token=False, image=image)


def with_spare(sessions: int) -> int:
    """A limit of sessions for a run that holds so many.

    A closed session is released a moment later than the next one opens, hence a few more than the run holds.
    """
    return sessions + max(2, sessions // 8)


def server_variables(env: EnvConfig, sessions: int) -> dict[str, str]:
    """Environment variables of a server with room for so many sessions."""
    return {
        **{key: str(value) for key, value in env.variables.items()},
        "MAX_CONCURRENT_ENVS": str(with_spare(sessions)),
    }


def local_server(
    name: str, env: EnvConfig, config: TrainConfig, sessions: int, facts: MachineFacts, path: Mapping[str, str]
) -> ProcessSpec:
    """The embedded server as a process."""
    host, port = config.server.host, config.server.port or facts.free_port(config.server.host)
    workers = config.server.workers or max(1, min(facts.cpus, sessions // SESSIONS_A_WORKER))
    listen = ("--host", host, "--port", str(port), "--log-level", "warning", *PLAIN)
    # The system gives a new connection to any of them, so each has room for all sessions.
    several = ("--workers", str(workers)) if workers > 1 else ()
    argv = (sys.executable, "-m", "uvicorn", str(env.app), *listen, *several)
    ready = ReadySpec(f"http://{host}:{port}/health", config.server.ready_timeout_s, READY_KEY)
    return ProcessSpec(f"server-{name}", argv, {**path, **server_variables(env, sessions)}, ready, port, host)


def docker_server(
    name: str, env: EnvConfig, config: TrainConfig, sessions: int, facts: MachineFacts, path: Mapping[str, str]
) -> ProcessSpec:
    """The server in a container, as the process that runs and follows it (servers/docker.py).

    The container's name is decided here: whoever outlives the process can then remove the container.
    """
    host, port = config.server.host, config.server.port or facts.free_port(config.server.host)
    container = f"trl-env-{name}-{facts.unique_id()}"
    variables = [f"{key}={value}" for key, value in server_variables(env, sessions).items()]
    command = ("-m", "trl_envs.servers.docker", container, str(env.image), f"{host}:{port}", *variables)
    return ProcessSpec(
        f"server-{name}",
        (sys.executable, *command),
        path,
        ReadySpec(f"http://{host}:{port}/health", config.server.ready_timeout_s, READY_KEY),
        port,
        host,
        cleanup=("docker", "rm", "--force", "--volumes", container),
    )
