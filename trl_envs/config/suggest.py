"""Nearest names, for messages about a name that doesn't exist."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like `name`, however little alike they are; None if nothing is known.

    Dotted names are compared by their last part first, so that a key given at the wrong depth finds its place.
    """
    leaf = name.rpartition(".")[2].lower()

    def likeness(candidate: str) -> tuple[float, float, int]:
        candidate_leaf = candidate.rpartition(".")[2].lower()
        return (
            SequenceMatcher(None, leaf, candidate_leaf).ratio(),
            SequenceMatcher(None, name.lower(), candidate.lower()).ratio(),
            -len(candidate),
        )

    return max(known, key=likeness, default=None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint that names the nearest known name, or says that there are none."""
    found = nearest(name, known)
    return f"did you mean {found}?" if found else "nothing of that kind is known here"
