"""Each game with what a comparison of its two servers needs."""

from __future__ import annotations

import importlib
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.envs.textarena_play import Policy, play, playing
from tests.loopback import serving
from trl_envs.envs.catch import CatchEnv
from trl_envs.envs.echo import EchoEnv
from trl_envs.envs.episode import Episode
from trl_envs.envs.game import GameEnvironment, end_episode
from trl_envs.envs.sudoku import SudokuEnv
from trl_envs.envs.wordle import WordleEnv
from trl_envs.rollout.session import SessionOpener

TEXTARENA = {"wordle": "Wordle-v0", "sudoku": "Sudoku-v0-easy"}


@dataclass(frozen=True)
class Game:
    """One game.

    Args:
        environment: Its class.
        terms: Names of its reward terms.
        action: A legal first action.
        episodes: How many to play of each kind.
    """

    environment: type[GameEnvironment]
    terms: tuple[str, ...]
    action: Mapping[str, Any]
    episodes: int


ECHO_CALL = {"type": "call_tool", "tool_name": "echo_message", "arguments": {"message": "hello"}}
SUDOKU_TERMS = ("solved", "progress", "empty_cell", "valid_move", "repetition")
GAMES = {
    "echo": Game(EchoEnv, ("length",), ECHO_CALL, 5),
    "catch": Game(CatchEnv, ("caught",), {"action_id": 1, "game_name": "catch"}, 30),
    "wordle": Game(WordleEnv, ("win", "partial", "invalid"), {"message": "[crane]"}, 6),
    "sudoku": Game(SudokuEnv, SUDOKU_TERMS, {"message": "[1 1 1]"}, 4),
}


def policy_of(name: str, kind: str) -> Policy:
    """The game's `solver` or `random_policy`."""
    policy: Policy = getattr(importlib.import_module(f"trl_envs.envs.{name}.policies"), kind)
    return policy


@contextmanager
def embedded(name: str) -> Iterator[str]:
    """The URL of trl-env's own server of the game."""
    with playing(TEXTARENA[name]) if name in TEXTARENA else serving(name) as server:
        yield server.url


def played(name: str, url: str, policy: Policy, seed: int) -> tuple[list[str], Episode]:
    """What the model would have seen, and the record."""
    environment = GAMES[name].environment(SessionOpener([url]))
    try:
        return play(environment, policy, seed, random.Random(seed)), environment.episode
    finally:
        end_episode(environment)


def scored(name: str, episode: Episode) -> dict[str, float]:
    """The value of each reward term, with its own numbers."""
    rewards = importlib.import_module(f"trl_envs.envs.{name}.rewards")
    return {term: getattr(rewards, term)(episode) for term in GAMES[name].terms}
