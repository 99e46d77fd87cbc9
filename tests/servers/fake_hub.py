"""A stand-in for the Hub on loopback, as far as it is asked about Spaces and Jobs, and a Space that checks tokens."""

from __future__ import annotations

import json
import threading
import time
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


@dataclass
class Job:
    """A job as the Hub knows it.

    Attributes:
        spec: What it was submitted with.
        stages: What its stage is, one for each time it is asked for; the last one stays.
        lines: Its log.
        message: The Hub's word on it.
        endless: Whether the log goes on for ever.
    """

    spec: dict[str, Any] = field(default_factory=dict)
    stages: list[str] = field(default_factory=lambda: ["COMPLETED"])
    lines: list[str] = field(default_factory=lambda: ["step 1", "step 2"])
    message: str | None = None
    endless: bool = False

    def describe(self, account: str, identifier: str) -> dict[str, Any]:
        stage = self.stages.pop(0) if len(self.stages) > 1 else self.stages[0]
        owner = {"id": "1", "name": account, "type": "user"}
        status = {"stage": stage, "message": self.message}
        return {"id": identifier, "owner": owner, "status": status, "command": self.spec.get("command")}


class FakeHub:
    """Attributes: spaces by name, jobs by account/id, url, and requests as (method, path, authorization, body)."""

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.refusing: tuple[int, dict[str, str], Any] | None = None
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
        if path.startswith("/api/jobs/"):
            return self._job(method, path.removeprefix("/api/jobs/").split("/"), body) if known else FORBIDDEN
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

    def _job(self, method: str, parts: list[str], body: Any) -> tuple[int, dict[str, str], Any]:
        if self.refusing is not None:
            return self.refusing
        account, identifier, action = [*parts, "", ""][:3]
        if method == "POST" and not identifier:
            self.jobs[f"{account}/j1"] = job = self.jobs.pop("next", Job())
            job.spec = body
            return 200, {}, job.describe(account, "j1")
        known = self.jobs.get(f"{account}/{identifier}")
        if known is None:
            return 404, {}, {"error": "Job not found"}
        if action == "cancel":
            known.stages = ["CANCELED"]
        if action == "logs":
            return 200, {}, known
        return 200, {}, known.describe(account, identifier)


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
            if isinstance(answer, Job):
                self._stream(answer)
                return
            data = json.dumps(answer).encode()
            self.send_response(status)
            for key, value in {**headers, "Content-Type": "application/json", "Content-Length": str(len(data))}.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(data)

        def _stream(self, job: Job) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            for line in job.lines:
                event = {"data": line, "timestamp": "2026-01-01T00:00:00Z"}
                self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
            while job.endless:
                time.sleep(0.05)
                try:
                    self.wfile.write(b": keep-alive\n\n")
                except OSError:
                    return

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
