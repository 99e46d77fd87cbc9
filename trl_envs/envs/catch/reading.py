"""Where things are on catch's board, out of what its tools say."""

from __future__ import annotations

import re

_PLACES = re.compile(r"Ball: column (\d+)\. Paddle: column (\d+)\..*Moves left: (\d+)\.", re.DOTALL)


def read_places(text: str) -> tuple[int, int, int] | None:
    """Column of the ball, column of the paddle (both from 1) and moves left; None of a text without a board."""
    found = _PLACES.search(text)
    return None if found is None else (int(found[1]), int(found[2]), int(found[3]))
