"""OpenEnv's client, kept from replacing a connection behind the back of the game that runs on it."""

from __future__ import annotations

from typing import Any

from websockets.asyncio.client import ClientConnection

from trl_envs.rollout.openenv_core import GenericEnvClient, StepResult

# websockets waits this long for the far end's half of the closing handshake before it drops the socket.
CLOSE_TIMEOUT_S = 2.0


class MalformedReplyError(ConnectionError):
    """The far end sent something that isn't a message of OpenEnv's protocol."""


class OneConnectionClient(GenericEnvClient):  # type: ignore[misc]
    """A client that connects once.

    openenv 0.10.0 opens a new connection, and with it a new game that nobody has reset, whenever it finds its socket
    closed or has given up waiting for a reply (`_connect_async` and `_receive` in openenv/core/env_client.py).
    Here the first socket is the only one: later messages fail with ConnectionClosed or ConnectionError instead.
    """

    _first_socket: ClientConnection | None = None

    async def _connect_async(self) -> OneConnectionClient:
        """Connects the first time, and afterwards refuses any other socket; every message goes through here.

        Raises:
            ConnectionError: The server can't be reached, or the first socket was given up after a timeout.
        """
        if self._first_socket is None:
            await super()._connect_async()
            self._first_socket = self._ws
            self._first_socket.close_timeout = CLOSE_TIMEOUT_S
        elif self._ws is not self._first_socket:
            raise ConnectionError("the connection was given up after a message went unanswered")
        return self

    async def _receive(self) -> dict[str, Any]:
        message = await super()._receive()
        if not isinstance(message, dict) or not isinstance(message.get("data", {}), dict):
            raise MalformedReplyError(f"not a message of OpenEnv's protocol: {message!r:.200}")
        return message

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[dict[str, Any]]:
        if not isinstance(payload.get("observation"), dict):
            raise MalformedReplyError(f"a reply without an observation: {payload!r:.200}")
        result: StepResult[dict[str, Any]] = super()._parse_result(payload)
        return result
