"""The echo tool, over either of the two protocols that echo servers speak."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trl_envs.envs.game import GameEnvironment, tool
from trl_envs.errors import SessionLost

if TYPE_CHECKING:
    from trl_envs.rollout.session import Reply

# The fields of an action in either protocol.
TYPED = frozenset({"message"})
MCP = frozenset({"type", "tool_name", "arguments"})


class EchoEnv(GameEnvironment):
    """Sends a message and gets it back. It never ends by itself: the model stops when it wants to.

    OpenEnv's echo server took typed actions (`message`) at first and is an MCP environment now (`tool_name`); its
    /schema says which it is.

    Facts: `echoes` (number of messages that came back).
    """

    _protocols = (TYPED, MCP)

    _speaks_mcp = False

    def _begin(self, reply: Reply) -> str:
        fields = self._open_session.action_fields()
        if not any(protocol <= fields for protocol in self._protocols):
            raise SessionLost(
                f"not an echo server: its actions have the fields {sorted(fields)}, neither message nor tool_name",
                "check the address of this environment",
            )
        self._speaks_mcp = not fields >= TYPED
        self.episode.facts = {"echoes": 0}
        return "The echo server is ready."

    @tool
    def echo(self, message: str) -> str:
        """Send a message and get it back.

        Args:
            message: The message to echo.

        Returns:
            The echoed message.
        """
        if not message:
            # The typed server refuses an empty message.
            raise ValueError("message must not be empty.")
        echoed = self._echo_mcp(message) if self._speaks_mcp else self._echo_typed(message)
        self.episode.facts["echoes"] += 1
        return echoed

    def _echo_typed(self, message: str) -> str:
        return _text(self._play({"message": message}).observation.get("echoed_message"))

    def _echo_mcp(self, message: str) -> str:
        call = {"type": "call_tool", "tool_name": "echo_message", "arguments": {"message": message}}
        observation = self._play(call).observation
        if observation.get("error"):
            raise SessionLost(f"the echo server's tool failed: {observation['error']}")
        result = observation.get("result")
        return _text(result.get("data") if isinstance(result, dict) else result)


def _text(echoed: Any) -> str:
    if not isinstance(echoed, str):
        raise SessionLost(f"the echo server answered without the echoed text: {echoed!r:.200}")
    return echoed
