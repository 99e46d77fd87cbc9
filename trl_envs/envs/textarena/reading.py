"""The client's side of textarena's growing message: what was added to it since the last look."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trl_envs.errors import SessionLost

if TYPE_CHECKING:
    from trl_envs.rollout.session import Reply

INVALID = "You attempted an invalid move"


class Transcript:
    """All that a textarena server has said in one game.

    Args:
        reply: Its answer to the reset.

    Attributes:
        text: Everything so far.

    Raises:
        SessionLost: The answer is not that of a textarena server.
    """

    def __init__(self, reply: Reply) -> None:
        self.text = _content(reply)

    def take(self, reply: Reply) -> str:
        """What a step added.

        Raises:
            SessionLost: The answer isn't the old text with something behind it.
        """
        text = _content(reply)
        if not text.startswith(self.text):
            raise SessionLost(
                f"the server's text doesn't continue this game: it starts with {text[:80]!r}",
                "check that the address belongs to a textarena server with its usual wrappers",
            )
        new, self.text = text[len(self.text) :], text
        return new


def _content(reply: Reply) -> str:
    messages = reply.observation.get("messages")
    first = messages[0] if isinstance(messages, list) and len(messages) == 1 else None
    content = first.get("content") if isinstance(first, dict) else None
    if not isinstance(content, str):
        raise SessionLost(
            f"not a textarena server: its observation has the fields {sorted(reply.observation)} and not one message",
            "check the address of this environment",
        )
    return content
