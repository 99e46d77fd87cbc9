"""A stand-in for the Hub on loopback, as far as it is asked about Spaces, and a Space that checks tokens."""

from __future__ import annotations

import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.loopback import GAMES, serving_app
from trl_envs.rollout.openenv_core import create_fastapi_app

TOKEN = "hf_SecretOfTheTests"
UNKNOWN = (
    404,
    {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"},
    {"error": "Repository not found"},
)
FORBIDDEN = (403, {}, {"error": "You don't have the required permissions"})


@dataclass
class Space:
    """A Space as the Hub knows it.

    Attributes:
        host: Where it is served.
        private: Whether only TOKEN may see it.
        stages: What its stage is, one for each time it is asked for; the last one stays.
        error: The Hub's message on it.
        variables: None if the token may not read them.
    """

    host: str | None = "http://127.0.0.1:9"
    private: bool = False
    stages: list[str] = field(default_factory=lambda: ["RUNNING"])
    error: str | None = None
    variables: dict[str, str] | None = None


class FakeHub:
    """Attributes: spaces by name, url, and requests as (method, path, authorization, body)."""

    def __init__(self) -> None:
        self.spaces: dict[str, Space] = {}
        self.requests: list[tuple[str, str, str | None, Any]] = []
        self.url = ""
        self.copying: tuple[int, dict[str, str], Any] | None = None

    def asked(self, method: str, end: str) -> list[tuple[str, str, str | None, Any]]:
        return [request for request in self.requests if request[0] == method and request[1].endswith(end)]

    def answer(self, method: str, path: str, token: str | None, body: Any) -> tuple[int, dict[str, str], Any]:
        known = token == f"Bearer {TOKEN}"
        if path == "/api/whoami-v2":
            return (
                (200, {}, {"name": "me", "orgs": [{"name": "my-team"}]})
                if known
                else (401, {}, {"error": "Invalid token"})
            )
        parts = path.removeprefix("/api/spaces/").split("/")
        name, rest = "/".join(parts[:2]), "/".join(parts[2:])
        space = self.spaces.get(name)
        if space is None or (space.private and not known):
            return UNKNOWN
        if rest == "variables":
            if space.variables is None:
                return FORBIDDEN
            return 200, {}, {key: {"value": value} for key, value in space.variables.items()}
        if method == "POST" and rest == "duplicate":
            if self.copying is None:
                self.spaces[body["repository"]] = Space()
            return self.copying or (200, {}, {"url": f"{self.url}/spaces/{body['repository']}"})
        assert (method, rest) == ("GET", ""), path
        stage = space.stages.pop(0) if len(space.stages) > 1 else space.stages[0]
        runtime = {"stage": stage, **({"errorMessage": space.error} if space.error else {})}
        return 200, {}, {"id": name, "host": space.host, "private": space.private, "runtime": runtime}


@contextmanager
def hub_serving(**spaces: Space) -> Iterator[FakeHub]:
    """The stand-in; spaces as `me__catch=Space(...)`."""
    hub = FakeHub()
    hub.spaces = {name.replace("__", "/"): space for name, space in spaces.items()}

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            body, token = json.loads(text) if text else None, self.headers.get("Authorization")
            hub.requests.append((self.command, self.path, token, body))
            status, headers, answer = hub.answer(self.command, self.path, token, body)
            data = json.dumps(answer).encode()
            self.send_response(status)
            for key, value in {**headers, "Content-Type": "application/json", "Content-Length": str(len(data))}.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = _answer  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class Seen:
    """What came to a Space: its address, and (path, authorization) of each request."""

    url: str
    requests: list[tuple[str, str | None]]

    def tokens(self, path: str) -> set[str | None]:
        return {token for asked, token in self.requests if asked == path}


@contextmanager
def space_serving(sessions: int = 24, *, private: bool = False) -> Iterator[Seen]:
    """The game of catch as a Space would serve it: a private one lets nobody in without the token."""
    requests: list[tuple[str, str | None]] = []

    def make_app() -> Callable[..., Awaitable[None]]:
        app = create_fastapi_app(*GAMES["catch"], max_concurrent_envs=sessions)

        async def guarded(scope: dict[str, Any], receive: Any, send: Any) -> None:
            if scope["type"] in ("http", "websocket"):
                token = dict(scope["headers"]).get(b"authorization", b"").decode() or None
                requests.append((scope["path"], token))
                if private and token != f"Bearer {TOKEN}":
                    if scope["type"] == "http":
                        await send({"type": "http.response.start", "status": 404, "headers": []})
                        await send({"type": "http.response.body", "body": b""})
                    else:
                        await receive()
                        await send({"type": "websocket.close", "code": 1008})
                    return
            await app(scope, receive, send)

        return guarded

    with serving_app(make_app) as server:
        yield Seen(server.url, requests)
