"""Whether a process of ours answers: one GET that never blocks for long, and whether its port is free before that."""

from __future__ import annotations

import errno
import http.client
import os
import select
import socket
import time
from collections.abc import Callable
from urllib.parse import urlsplit

from trl_envs.errors import StartupError
from trl_envs.plan.spec import ProcessSpec

# A server that is busy loading may take a while to answer; a lost request mustn't use up the whole deadline.
REQUEST_TIMEOUT_S = 5.0
TICK_S = 0.1


def ask_ready(url: str, check: Callable[[], None], deadline: float) -> str:
    """Asks once whether a server is ready; returns "" if it answered 200, else what happened instead.

    http.client knows no proxies, whatever the environment variables say, and follows no redirects.

    Args:
        url: An http URL of this machine.
        check: Called every `TICK_S` while waiting for the answer; raises to end the wait.
        deadline: `time.monotonic()` after which there is no point in waiting.
    """
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    connection = http.client.HTTPConnection(parts.hostname or "127.0.0.1", parts.port, timeout=TICK_S)
    try:
        connection.request("GET", target, headers={"Connection": "close"})
        sock = connection.sock
        give_up = min(deadline, time.monotonic() + REQUEST_TIMEOUT_S)
        while not select.select([sock], [], [], TICK_S)[0]:
            check()
            if time.monotonic() >= give_up:
                return "it accepts connections and doesn't answer"
        # The answer has begun; what is left of it is on its way.
        sock.settimeout(1.0)
        status = connection.getresponse().status
        return "" if status == http.HTTPStatus.OK else f"it answers {status}"
    except (OSError, http.client.HTTPException) as error:
        return f"no answer ({str(error) or type(error).__name__})"
    finally:
        connection.close()


def check_port_free(spec: ProcessSpec) -> None:
    """Refuses a process whose port can't be listened on.

    Raises:
        StartupError: Something listens there already, or this user may not.
    """
    if spec.port is None:
        return
    problem = _listen_problem(spec.host, spec.port)
    if problem:
        raise StartupError(
            f"{spec.name}: port {spec.port} on {spec.host} {problem}",
            f"choose another port (environment servers: server.port=NUMBER, or server.port=null for any free one); "
            f"to see who has this one: lsof -iTCP:{spec.port} -sTCP:LISTEN",
        )


def _listen_problem(host: str, port: int) -> str:
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as server:
            # As servers do: connections of an earlier run that are still closing don't count.
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind(address)
            server.listen()
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        return (
            "is already taken" if taken else f"can't be listened on: {error.strerror or os.strerror(error.errno or 0)}"
        )
    return ""
