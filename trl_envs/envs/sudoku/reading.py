"""What became of a move, out of the record of a tool call."""

from __future__ import annotations

import re

from trl_envs.envs.episode import Event

_PLACED = re.compile(r"Placed (\d) at row (\d), column (\d)\.")


def placed_number(event: Event) -> tuple[int, int, int] | None:
    """Row, column (both from 1) and number of a move that was accepted; None for another."""
    found = _PLACED.match(event.result or "")
    return None if found is None else (int(found[2]), int(found[3]), int(found[1]))
