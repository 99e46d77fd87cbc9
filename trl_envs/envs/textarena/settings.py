"""Which game a textarena server plays and how, from the variables that the official server reads too.

TEXTARENA_ENV_ID, TEXTARENA_NUM_PLAYERS, TEXTARENA_MAX_TURNS, and TEXTARENA_KW_<NAME> for an argument <name> of the
game's constructor. The official server hands the latter on as text, on which Sudoku's TEXTARENA_KW_CLUES crashes; here
they become numbers where they look like it. TEXTARENA_DOWNLOAD_NLTK has no meaning: nothing is ever downloaded.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trl_envs.errors import ConfigError

ID_VARIABLE = "TEXTARENA_ENV_ID"
PLAYERS_VARIABLE = "TEXTARENA_NUM_PLAYERS"
TURNS_VARIABLE = "TEXTARENA_MAX_TURNS"
KEYWORD_PREFIX = "TEXTARENA_KW_"


@dataclass(frozen=True)
class GameKind:
    """What one server is there for.

    Args:
        ids: textarena's names of the games that it plays; the first is the default.
        limits: Smallest and largest value of the arguments that a game can be built with.
    """

    ids: tuple[str, ...]
    limits: Mapping[str, tuple[int, int]]


@dataclass(frozen=True)
class GameSettings:
    """One game, as textarena is to build it.

    Args:
        env_id: textarena's name of the game.
        max_turns: Turns after which the game ends, if it has such a limit; None for its own.
        keywords: Arguments of its constructor.
    """

    env_id: str
    max_turns: int | None
    keywords: Mapping[str, int | float | bool | str]

    @classmethod
    def from_environment(cls, kind: GameKind, variables: Mapping[str, str] = os.environ) -> GameSettings:
        """Reads the variables.

        Raises:
            ConfigError: One of them asks for what this server can't play.
        """
        env_id = variables.get(ID_VARIABLE, kind.ids[0])
        if env_id not in kind.ids:
            raise ConfigError(
                f"this server can't play {ID_VARIABLE}={env_id!r}, only {', '.join(kind.ids)}",
                f"export {ID_VARIABLE}={kind.ids[0]}, or unset it",
            )
        if variables.get(PLAYERS_VARIABLE, "1") != "1":
            raise ConfigError(
                f"{env_id} is played by one player, {PLAYERS_VARIABLE} is {variables[PLAYERS_VARIABLE]!r}",
                f"unset {PLAYERS_VARIABLE}",
            )
        turns = variables.get(TURNS_VARIABLE)
        max_turns = None if turns is None else _whole(TURNS_VARIABLE, value_of(turns), (1, 1_000_000))
        keywords = {
            name.removeprefix(KEYWORD_PREFIX).lower(): value_of(text)
            for name, text in sorted(variables.items())
            if name.startswith(KEYWORD_PREFIX)
        }
        for name, limits in kind.limits.items():
            if name in keywords:
                _whole(KEYWORD_PREFIX + name.upper(), keywords[name], limits)
        return cls(env_id, max_turns, keywords)


def value_of(text: str) -> int | float | bool | str:
    """A variable's text as a number or a truth value where it looks like one."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text.lower(), text)


def _whole(variable: str, value: Any, limits: tuple[int, int]) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not limits[0] <= value <= limits[1]:
        raise ConfigError(
            f"{variable} must be a whole number from {limits[0]} to {limits[1]}, got {value!r}",
            f"export {variable}={limits[0]}, or unset it",
        )
    return value
