"""The reward signals that the official server adds to Wordle's observations (envs/textarena_env/rewards.py in OpenEnv).

trl-env's own terms don't read them; they are here so that clients written for the official server find them.
"""

from __future__ import annotations

import re

BRACKETED = re.compile(r"\[[A-Za-z]{5}\]")


class WordleSignals:
    """Signals of one game, which has to remember the guesses."""

    def __init__(self) -> None:
        self._times: dict[str, int] = {}

    def after(self, action: str, text: str, reward: float) -> dict[str, float]:
        """The signals after one move.

        Args:
            action: What the player said.
            text: All that the player has seen, this move's feedback at its end.
            reward: The server's reward.

        Returns:
            `wordle.greens` and `wordle.yellows` of the last feedback as shares of five letters, `wordle.repetitions`
            (1 for a new guess, less by 1 each time it comes again) and `wordle.correct` (the reward).
        """
        colours = _last_colours(text)
        guess = _guess(action)
        before = self._times.get(guess, 0)
        if guess:
            self._times[guess] = before + 1
        return {
            "wordle.greens": colours.count("G") / 5,
            "wordle.yellows": colours.count("Y") / 5,
            "wordle.repetitions": 1.0 - before,
            "wordle.correct": reward,
        }


def _guess(action: str) -> str:
    """The word in brackets, else the first five letters; empty if there are fewer."""
    match = BRACKETED.search(action)
    if match:
        return match.group(0)[1:-1].lower()
    letters = re.sub(r"[^a-z]", "", action.lower())
    return letters[:5] if len(letters) >= 5 else ""


def _last_colours(text: str) -> str:
    """The last line of G, Y and X behind a feedback, without its spaces."""
    _, marker, feedback = text.partition("Feedback:")
    if not marker:
        return ""
    lines = [line.replace(" ", "") for line in feedback.split("\n")]
    return next((line for line in reversed(lines) if line and set(line) <= set("GYX")), "")
