"""What keeps an environment's server from being started or used."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from trl_envs.config.schema import EnvConfig, ServerMode, TrainConfig
from trl_envs.plan.facts import MachineFacts
from trl_envs.plan.problem import Problem

# What the Hub takes as the name of a repository, and no address.
_SPACE_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
# Docker's own rules are longer; what must not get through is an option, or two words.
_IMAGE_NAME = re.compile(r"[A-Za-z0-9][^\s]*")


def server_problems(config: TrainConfig, facts: MachineFacts) -> list[Problem]:
    """What is wrong with where the environments' sessions are to come from."""
    problems: list[Problem] = []
    started: dict[ServerMode, list[str]] = {ServerMode.local: [], ServerMode.docker: []}
    for name, env in config.envs.items():
        mode = mode_of(env, config)
        if env.url is not None:
            problems += _url_problems(name, env)
        elif mode is ServerMode.url:
            message, hint = f"server=url, and envs.{name}.url isn't set", f"add envs.{name}.url=http://HOST:PORT"
            problems.append(Problem(f"envs.{name}.url", message, hint))
        elif mode is ServerMode.space and not needs_no_server(env):
            problems += space_problems(name, env)
        elif not needs_no_server(env):
            started[mode].append(name)
    containers = started[ServerMode.docker]
    problems += [*embedded_problems(config, started[ServerMode.local]), *_image_problems(config, facts, containers)]
    return [*problems, *port_problems(config, facts, len(started[ServerMode.local]) + len(containers))]


def mode_of(env: EnvConfig, config: TrainConfig) -> ServerMode:
    """Where an environment's server runs, if its `url` doesn't say so."""
    return env.server or config.server.mode


def is_public_space(url: str) -> bool:
    """Whether a server is a Space of the Hub, which may be somebody else's and shared by many."""
    return (urlsplit(url).hostname or "").endswith(".hf.space")


def is_space_name(name: str) -> bool:
    """Whether a text is owner/name, as the Hub names Spaces."""
    return len(name) <= 96 and _SPACE_NAME.fullmatch(name) is not None and "--" not in name and ".." not in name


def space_problems(name: str, env: EnvConfig) -> list[Problem]:
    """What is wrong with the name of an environment's Space."""
    key = f"envs.{name}.space"
    if env.space is None:
        message = f"server=space, and envs.{name} names no Space"
        return [Problem(key, message, f"add {key}=OWNER/NAME, or envs.{name}.server=local")]
    if not is_space_name(env.space):
        message = f"{key}={env.space!r} is no name of a Space, owner/name"
        return [Problem(key, message, f"write {key}=OWNER/NAME; an address goes into envs.{name}.url")]
    return []


def _image_problems(config: TrainConfig, facts: MachineFacts, names: Sequence[str]) -> list[Problem]:
    problems = []
    for name in names:
        image, key = config.envs[name].image, f"envs.{name}.image"
        if image is None:
            message = f"server=docker, and envs.{name} names no container image"
            problems.append(Problem(key, message, f"add {key}=REGISTRY/NAME:TAG, or envs.{name}.server=local"))
        elif _IMAGE_NAME.fullmatch(image) is None:
            problems.append(Problem(key, f"{key}={image!r} is no container image", f"write {key}=REGISTRY/NAME:TAG"))
    reason = facts.docker_problem() if names else ""
    if reason:
        key = next((f"envs.{name}.server" for name in names if config.envs[name].server), "server.mode")
        problems.append(
            Problem(
                key,
                f"server=docker runs {' and '.join(names)} in a container, and that can't be done here: {reason}",
                "install Docker or start it (docker version must succeed), or use server=local",
            )
        )
    return problems


def needs_no_server(env: EnvConfig) -> bool:
    """Whether a recipe names no server at all, in no mode: a class that plays in the trainer's own process.

    If the class does want sessions, whoever builds it says so (agent/environments.py).
    """
    return env.app is None and env.space is None and env.image is None and env.url is None


def embedded_problems(config: TrainConfig, names: Sequence[str]) -> list[Problem]:
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
    return problems


def port_problems(config: TrainConfig, facts: MachineFacts, servers: int) -> list[Problem]:
    """What keeps so many servers from listening where they are to."""
    host, port, workers = config.server.host, config.server.port, config.server.workers
    if workers is not None and workers < 1:
        message = f"server.workers={workers}: a server without a process serves nobody"
        return [Problem("server.workers", message, "set server.workers=null")]
    if servers == 0:
        return []
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
