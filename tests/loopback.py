"""Real servers on loopback for tests: OpenEnv apps under uvicorn, and a raw WebSocket server that misbehaves."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from websockets.sync.server import ServerConnection, serve

from trl_envs.envs.catch.server import CatchAction, CatchObservation, CatchServer
from trl_envs.envs.echo.server import EchoAction, EchoObservation, EchoServer
from trl_envs.rollout.loop import SESSIONS
from trl_envs.rollout.openenv_core import create_fastapi_app
from trl_envs.rollout.session import Session

GAMES = {
    "echo": (EchoServer, EchoAction, EchoObservation),
    "catch": (CatchServer, CatchAction, CatchObservation),
}


class LiveServer:
    """An app under uvicorn in a thread. `stop` drops all sessions; `start` serves again on the same port."""

    def __init__(self, make_app: Callable[[], Any]) -> None:
        self._make_app = make_app
        self.port = 0
        self.start()

    def start(self) -> None:
        config = uvicorn.Config(
            self._make_app(), host="127.0.0.1", port=self.port, log_level="critical", ws="websockets"
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True, name="test-server")
        self._thread.start()
        deadline_s = time.monotonic() + 10
        while not self._server.started:
            assert time.monotonic() < deadline_s and self._thread.is_alive(), "the test server didn't start"
            time.sleep(0.005)
        self.port = self._server.servers[0].sockets[0].getsockname()[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(timeout=10)
        assert not self._thread.is_alive()


@contextmanager
def serving(game: str, sessions: int = 8) -> Iterator[LiveServer]:
    """One of the embedded games with room for `sessions` sessions."""
    server_class, action, observation = GAMES[game]
    with serving_app(
        lambda: create_fastapi_app(server_class, action, observation, max_concurrent_envs=sessions)
    ) as server:
        yield server


@contextmanager
def serving_app(make_app: Callable[[], Any]) -> Iterator[LiveServer]:
    server = LiveServer(make_app)
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def serving_raw(handler: Callable[[ServerConnection], None]) -> Iterator[str]:
    """A WebSocket server that does with each connection what the handler says."""
    with serve(handler, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True, name="test-server")
        thread.start()
        yield f"http://127.0.0.1:{server.socket.getsockname()[1]}"
        server.shutdown()
        thread.join(timeout=10)


def answer(connection: ServerConnection, **observation: Any) -> None:
    """Sends a well-formed reply."""
    data = {"observation": observation, "reward": 0.0, "done": False}
    connection.send(json.dumps({"type": "observation", "data": data}))


def state_of(session: Session) -> dict[str, Any]:
    """All that the server knows of a session's game, the secrets too: no class asks for it."""

    async def ask() -> dict[str, Any]:
        state: dict[str, Any] = await session._client.state()
        return state

    return SESSIONS.run(ask())
