"""A reward term for environments that score themselves, whatever the game."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def own_reward(environments: Sequence[Any], **_: Any) -> list[float | None]:
    """What each environment's own `get_reward()` says (TRL's contract for environments that own their reward).

    Raises:
        AttributeError: The environment class has no `get_reward`.
    """
    return [environment._get_reward() for environment in environments]
