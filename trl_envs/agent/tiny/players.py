"""Scripted players whose games the tiny agent learns from: each knows the tools well and the game only a little.

What learns from them calls tools validly and plays badly enough that GRPO has something to teach.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from trl_envs.envs.catch import CatchEnv
from trl_envs.envs.catch import policies as catch
from trl_envs.envs.echo import EchoEnv
from trl_envs.envs.episode import Episode
from trl_envs.envs.game import GameEnvironment
from trl_envs.envs.sudoku import SudokuEnv
from trl_envs.envs.sudoku import policies as sudoku
from trl_envs.envs.textarena.words import shipped_words
from trl_envs.envs.wordle import WordleEnv

Move = tuple[str, dict[str, Any]]
Policy = Callable[[str, Episode, random.Random], Move | None]

# Share of the moves that are the solver's; the rest is left, right or stay by chance. What learns from them and is
# sharpened afterwards catches about half of the balls: half of a group tells GRPO what the other half should have done.
CATCH_SOLVER_SHARE = 0.25
WORDLE_LENGTH = 5
# Guesses in a transcript; a whole game has nothing more to teach about the tool.
WORDLE_GUESSES = 3
# A cell of the hints that has one candidate, as `(1,3): 4`.
HINT = re.compile(r"\((\d),(\d)\): (\d)(?=,|\n|$)")
SUDOKU_FIRST_HINT_SHARE = 0.8
SUDOKU_MOVES = 2
MESSAGES = (
    *("Hello World!", "hello", "a short message", "echo this for me, please", "Good morning", "one two three", "yes"),
    *("what a nice day", "testing the echo", "Is anybody there?", "the quick brown fox", "more words"),
    *("a long message", "once again", "the longer the better", "and so on", "ok", "another sentence", "Thank you"),
    "see you later",
)


@dataclass(frozen=True)
class Player:
    """Who plays one game for the tiny agent.

    Args:
        environment: The game's class.
        policy: Gives the next move from the observation, the episode so far and a random generator; None to stop.
        other_prompts: Wordings beside the recipe's own, so that the format hangs on the tools rather than on every
            word of the prompt.
    """

    environment: type[GameEnvironment]
    policy: Policy
    other_prompts: tuple[str, ...]


def talkative(observation: str, episode: Episode, rng: random.Random) -> Move | None:
    """Echoes one to three messages of very different lengths: the spread that a length reward needs."""
    if episode.events and (len(episode.events) == 3 or rng.random() < 0.85):
        return None
    return "echo", {"message": ", ".join(rng.choices(MESSAGES, k=rng.choice((1, 1, 1, 2, 2, 3, 4))))}


def fumbling(observation: str, episode: Episode, rng: random.Random) -> Move | None:
    """Plays catch like the solver now and then, and otherwise by chance."""
    policy = catch.solver if rng.random() < CATCH_SOLVER_SHARE else catch.random_policy
    return policy(observation, episode, rng)


def guessing(observation: str, episode: Episode, rng: random.Random) -> Move | None:
    """Guesses words whatever the feedback says; one for each first letter, so that a small model can spell them."""
    if episode.done or episode.lost is not None or len(episode.events) == WORDLE_GUESSES:
        return None
    tried = {event.arguments.get("guess") for event in episode.events}
    words = {word[0]: word for word in shipped_words("en-basic") if len(word) == WORDLE_LENGTH}
    return "guess", {"guess": rng.choice([f"[{word}]" for word in words.values() if f"[{word}]" not in tried])}


def copying(observation: str, episode: Episode, rng: random.Random) -> Move | None:
    """Places what the hints name as a cell's only candidate, mostly the first of them, or else plays by chance."""
    if episode.done or episode.lost is not None or len(episode.events) == SUDOKU_MOVES:
        return None
    hints = HINT.findall(observation)
    if not hints:
        return sudoku.random_policy(observation, episode, rng)
    row, column, number = map(int, hints[0] if rng.random() < SUDOKU_FIRST_HINT_SHARE else rng.choice(hints))
    return "place", {"row": row, "column": column, "number": number}


PLAYERS = {
    "echo": Player(
        EchoEnv,
        talkative,
        ("Use the echo tool.\n", "Say something with the tool echo.\n", "Echo a message in the environment.\n"),
    ),
    "catch": Player(
        CatchEnv,
        fumbling,
        (
            "Catch the ball.\n",
            "Play catch: move the paddle below the ball.\n",
            "Move the paddle with the tools.\n",
        ),
    ),
    "wordle": Player(
        WordleEnv,
        guessing,
        ("Play Wordle.\n", "Find the secret word with the tool guess.\n", "Guess a word of five letters.\n"),
    ),
    "sudoku": Player(
        SudokuEnv,
        copying,
        ("Solve the Sudoku.\n", "Fill the grid with the tool place.\n", "Place a number in an empty cell.\n"),
    ),
}
