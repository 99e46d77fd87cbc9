"""Wordle's tool, and what its server leaves unsaid."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from trl_envs.envs.game import GameEnvironment, tool
from trl_envs.envs.textarena.reading import INVALID, Transcript
from trl_envs.errors import SessionLost

if TYPE_CHECKING:
    from trl_envs.rollout.session import Reply

# Texts of textarena/envs/Wordle/env.py.
RULES = re.compile(r"A secret (\d+)-letter word has been chosen\. You have (\d+) attempts")
FEEDBACK = re.compile(r"Feedback:\n([A-Z](?: [A-Z])*)\n([GYX](?: [GYX])*)(?=\n|$)")
NUMBERS = {4: "four", 5: "five", 6: "six", 7: "seven"}


class WordleEnv(GameEnvironment):
    """Six attempts at a secret word of five letters.

    A word that is no English word or was guessed before is an invalid move: it costs no attempt, and a second one in a
    row ends the game. The server says nothing then, and nothing when the word is found; the tool does.

    Facts: `won` (bool), `guesses` (attempts used), `invalid` (words that weren't taken, those of a wrong format
    included, which aren't sent to the server), `greens` (letters in place in the best guess), `attempts` and `letters`
    (the rules), `ended_by_invalid` (bool).
    """

    _protocols = (frozenset({"message"}),)

    _transcript: Transcript

    def _begin(self, reply: Reply) -> str:
        self._transcript = Transcript(reply)
        rules = RULES.search(self._transcript.text)
        if rules is None:
            raise SessionLost(
                f"the server plays another game than Wordle: {self._transcript.text[:120]!r}",
                "start the textarena server with TEXTARENA_ENV_ID=Wordle-v0",
            )
        self.episode.facts = {
            "won": False,
            "guesses": 0,
            "invalid": 0,
            "greens": 0,
            "attempts": int(rules.group(2)),
            "letters": int(rules.group(1)),
            "ended_by_invalid": False,
        }
        return self._transcript.text

    @tool
    def guess(self, guess: str) -> str:
        """Make a guess in the Wordle game.

        Args:
            guess: The word, as '[abcde]'.

        Returns:
            The feedback on each letter.
        """
        word = self._word(guess)
        reply = self._play({"message": f"[{word}]"})
        new = self._transcript.take(reply)
        facts = self.episode.facts
        colours = FEEDBACK.search(new)
        if INVALID in new and not reply.done:
            facts["invalid"] += 1
            return f"{new}\nA second invalid move in a row ends the game."
        if reply.done and (reply.reward or 0.0) >= 1.0:
            facts.update(won=True, guesses=facts["guesses"] + 1, greens=facts["letters"])
            return f"{new}\nCorrect, that is the secret word. Game over."
        if colours is not None:
            facts["guesses"] += 1
            facts["greens"] = max(facts["greens"], colours.group(2).count("G"))
            return f"{new}\nNo attempts are left. Game over." if reply.done else new
        if reply.done:
            facts.update(invalid=facts["invalid"] + 1, ended_by_invalid=True)
            return f"{new}\nThat was a second invalid move in a row. Game over."
        raise SessionLost(f"the server's answer to a guess has no feedback: {new!r:.200}")

    def _word(self, guess: str) -> str:
        """The word in lower case.

        Raises:
            ValueError: It isn't one word of the right length. Said here and not by the server, on whose count of
                invalid moves in a row it has no bearing.
        """
        letters = self.episode.facts["letters"]
        text = guess.strip()
        word = text[1:-1].strip() if text.startswith("[") and text.endswith("]") else text
        if len(word) != letters or not word.isascii() or not word.isalpha():
            self.episode.facts["invalid"] += 1
            raise ValueError(f"guess must be one word of {NUMBERS.get(letters, letters)} letters, such as '[abcde]'.")
        return word.lower()
