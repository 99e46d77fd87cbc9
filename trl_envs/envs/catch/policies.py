"""Scripted players of catch."""

from __future__ import annotations

import random
import re
from typing import Any

from trl_envs.envs.episode import Episode

SIDE = re.compile(r"to the (left|right) of the paddle")


def random_policy(observation: str, episode: Episode, rng: random.Random) -> tuple[str, dict[str, Any]] | None:
    """Left, right or stay with equal chances, until the game is over."""
    if episode.done:
        return None
    direction = rng.choice(("left", "right", "stay"))
    return ("stay", {}) if direction == "stay" else ("move", {"direction": direction})


def solver(observation: str, episode: Episode, rng: random.Random) -> tuple[str, dict[str, Any]] | None:
    """Moves towards the ball, then stays below it: catches every ball."""
    if episode.done:
        return None
    side = SIDE.search(observation)
    return ("move", {"direction": side.group(1)}) if side else ("stay", {})


def explain(observation: str, episode: Episode, move: tuple[str, dict[str, Any]]) -> str:
    """Why the solver makes the move."""
    side = SIDE.search(observation)
    where = f"to the {side.group(1)}" if side else "right above the paddle"
    return f"The ball is {where}, so I {'move ' + side.group(1) if side else 'stay'}."
