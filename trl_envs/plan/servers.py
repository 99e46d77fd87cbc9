"""What keeps an environment's server from being started or used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trl_envs.config.schema import EnvConfig, ServerMode, TrainConfig
from trl_envs.plan.facts import MachineFacts
from trl_envs.plan.problem import Problem


def server_problems(config: TrainConfig, facts: MachineFacts) -> list[Problem]:
    """What is wrong with where the environments' sessions are to come from."""
    problems: list[Problem] = []
    embedded = []
    for name, env in config.envs.items():
        mode = env.server or config.server.mode
        if env.url is not None:
            problems += _url_problems(name, env)
        elif mode is ServerMode.local and not needs_no_server(env):
            embedded.append(name)
        elif mode is ServerMode.local:
            continue
        elif mode is ServerMode.url:
            problems.append(
                Problem(
                    f"envs.{name}.url",
                    f"server=url, and envs.{name}.url isn't set",
                    f"add envs.{name}.url=http://HOST:PORT",
                )
            )
        else:
            problems.append(
                Problem(
                    f"envs.{name}.server" if env.server else "server.mode",
                    f"envs.{name}: server={mode.name} isn't in this version",
                    f"start that server yourself and add envs.{name}.url=http://HOST:PORT, or use server=local",
                )
            )
    return [*problems, *embedded_problems(config, facts, embedded)]


def needs_no_server(env: EnvConfig) -> bool:
    """Whether a recipe names no server at all, in no mode: a class that plays in the trainer's own process.

    If the class does want sessions, whoever builds it says so (agent/environments.py).
    """
    return env.app is None and env.space is None and env.image is None and env.url is None


def embedded_problems(config: TrainConfig, facts: MachineFacts, names: Sequence[str]) -> list[Problem]:
    """What is wrong with the servers that trl-env would start for these environments."""
    problems = []
    for name in names:
        app = config.envs[name].app
        if app is None or ":" not in app:
            what = "has no embedded server" if app is None else f"names no ASGI app: {app!r} isn't module:attribute"
            problems.append(
                Problem(
                    f"envs.{name}.app",
                    f"envs.{name} {what} (envs.{name}.app)",
                    f"name one, envs.{name}.app=my_server:app, or use envs.{name}.url=http://HOST:PORT",
                )
            )
    return [*problems, *(_port_problems(config, facts, len(names)) if names else [])]


def _port_problems(config: TrainConfig, facts: MachineFacts, servers: int) -> list[Problem]:
    host, port = config.server.host, config.server.port
    if not facts.port_is_free(host, 0):
        message = f"server.host={host} is no address of this machine"
        return [Problem("server.host", message, "set server.host=127.0.0.1")]
    if port is None:
        return []
    if not 0 < port < 65536:
        message = f"server.port={port} is no TCP port (1 to 65535)"
        return [Problem("server.port", message, "set server.port=8001, or server.port=null for any free one")]
    if servers > 1:
        message = f"server.port={port} can't serve {servers} environments"
        return [Problem("server.port", message, "leave server.port=null")]
    if not facts.port_is_free(host, port):
        return [
            Problem(
                "server.port",
                f"server.port={port}: something listens on {host}:{port} already, or this user may not",
                "set server.port=null for any free one; to use what runs there: envs.NAME.url=http://HOST:PORT",
            )
        ]
    return []


def url_list(value: Any) -> list[Any]:
    """`envs.NAME.url` as a list: one URL or several."""
    return value if isinstance(value, list) else [value]


def _url_problems(name: str, env: EnvConfig) -> list[Problem]:
    key, hint = f"envs.{name}.url", f"envs.{name}.url=http://HOST:PORT"
    problems = []
    for url in url_list(env.url):
        if not isinstance(url, str) or not url.startswith(("http://", "https://")):
            problems.append(Problem(key, f"{key}={url!r} is no http(s) URL", hint))
        elif "@" in url.partition("://")[2].partition("/")[0]:
            problems.append(
                Problem(
                    key,
                    f"{key} holds a password, which would land in the run directory",
                    "put a token into the variable that server.token_env names, and leave it out of the URL",
                )
            )
    return problems or ([Problem(key, f"{key} is an empty list", hint)] if not url_list(env.url) else [])
