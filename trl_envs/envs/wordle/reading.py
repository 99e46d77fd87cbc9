"""What became of a guess, out of the record of a tool call."""

from __future__ import annotations

from trl_envs.envs.episode import Event
from trl_envs.envs.wordle.environment import FEEDBACK

# What the tool says of the secret word.
_FOUND = "Correct, that is the secret word."


def taken_guess(event: Event) -> tuple[str, str] | None:
    """Letters and colours (G, Y or X for each) of a guess that was taken; None for another."""
    found = FEEDBACK.search(event.result or "")
    if found is not None:
        return found[1], found[2]
    if event.result is None or _FOUND not in event.result:
        return None
    # The server says nothing of a word that is right.
    word = str(event.arguments.get("guess", "")).strip(" []").upper()
    return word, "G" * len(word)
