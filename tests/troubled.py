"""A game's server that gets into trouble once a batch is being played: `python -m tests.troubled GAME PORT FOLDER`.

FOLDER/troubles.json lists pairs [messages, trouble]: the trouble strikes at that many steps since the last one, counted
only while at least `BATCH` sessions are open, so that the probe's own episodes don't count. What struck is appended to
FOLDER/struck.jsonl. Troubles:

    restart   the process ends with `RESTART_CODE`, in the middle of the step; whoever started it starts it again
    drop      the session's TCP connection is aborted, in the middle of the step
    hang      the step's answer comes `HANG_S` later
    forget    the step comes so late that the server has thrown the idle sessions away (openenv's own reaper)
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import uvicorn
from openenv.core.env_server.types import ConcurrencyConfig

from trl_envs.rollout.openenv_core import create_fastapi_app

BATCH = 5
HANG_S = 6.0
# openenv's reaper looks at the sessions every five seconds.
IDLE_S, FORGET_S = 3.0, 9.0
RESTART_CODE = 77


class Troubled:
    """ASGI middleware around a game's app."""

    def __init__(self, app: Any, folder: Path, troubles: list[list[Any]]) -> None:
        self.app = app
        self.folder = folder
        self.troubles = troubles
        self.server: uvicorn.Server | None = None
        self.playing: set[tuple[str, int]] = set()
        self.counted = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "websocket":
            await self.app(scope, receive, send)
            return
        client = tuple(scope["client"])

        async def watched() -> Any:
            message = await receive()
            kind = json.loads(message["text"])["type"] if message.get("text") else ""
            if kind == "reset":
                self.playing.add(client)
            elif kind == "step":
                await self.count(client)
            return message

        try:
            await self.app(scope, watched, send)
        finally:
            self.playing.discard(client)

    async def count(self, client: tuple[str, int]) -> None:
        if not self.troubles or len(self.playing) < BATCH:
            return
        self.counted += 1
        messages, trouble = self.troubles[0]
        if self.counted < messages:
            return
        self.counted = 0
        self.troubles.pop(0)
        (self.folder / "troubles.json").write_text(json.dumps(self.troubles))
        with (self.folder / "struck.jsonl").open("a") as file:
            file.write(json.dumps({"trouble": trouble, "playing": len(self.playing)}) + "\n")
        await self.strike(trouble, client)

    async def strike(self, trouble: str, client: tuple[str, int]) -> None:
        if trouble == "restart":
            os._exit(RESTART_CODE)
        if trouble == "drop":
            assert self.server is not None
            [connection] = [c for c in self.server.server_state.connections if c.client == client]  # type: ignore[union-attr]
            connection.transport.abort()  # type: ignore[union-attr]
        await asyncio.sleep({"hang": HANG_S, "forget": FORGET_S}.get(trouble, 0.0))


def game_app(game: str, forgetful: bool) -> Any:
    """The game's app, which throws idle sessions away if it is forgetful."""
    if game == "catch":
        from trl_envs.envs.catch.server import CatchAction, CatchObservation, CatchServer

        made = (CatchServer, CatchAction, CatchObservation)
    else:
        import functools

        from trl_envs.envs.textarena.games import GameFactory
        from trl_envs.envs.textarena.server import TextArenaServer
        from trl_envs.envs.textarena.settings import GameSettings
        from trl_envs.envs.textarena.wire import TextArenaAction, TextArenaObservation
        from trl_envs.envs.wordle.server import WORDLE

        games = GameFactory(GameSettings.from_environment(WORDLE))
        made = (functools.partial(TextArenaServer, games), TextArenaAction, TextArenaObservation)
    limits = ConcurrencyConfig(max_concurrent_envs=16, session_timeout=IDLE_S if forgetful else None)
    return create_fastapi_app(*made, concurrency_config=limits)


def main() -> None:
    game, port, folder = sys.argv[1:]
    troubles = json.loads((Path(folder) / "troubles.json").read_text())
    # Not together with others: all that hang would be forgotten too.
    app = Troubled(game_app(game, forgetful=[t for _, t in troubles] == ["forget"]), Path(folder), troubles)
    config = uvicorn.Config(app, host="127.0.0.1", port=int(port), log_level="warning", ws="websockets")
    app.server = uvicorn.Server(config)
    app.server.run()


if __name__ == "__main__":
    main()
