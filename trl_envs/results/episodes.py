"""episodes.jsonl: every episode that a run played, one a line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trl_envs.results.jsonlines import JsonLinesWriter, read_json_lines


class EpisodeWriter:
    """Appends to episodes.jsonl; several training processes may do so at once.

    Args:
        path: The file; see `JsonLinesWriter`.
    """

    def __init__(self, path: Path) -> None:
        self._lines = JsonLinesWriter(path)

    def write(self, episode: Mapping[str, Any], *, step: int, group: int, rewards: Mapping[str, float | None]) -> None:
        """Appends one episode.

        Args:
            episode: As `Episode.as_dict()` gives it.
            step: Optimizer steps done when it was played.
            group: Index of its group in the generation batch; a group's episodes share the seed.
            rewards: Value of each term, unweighted; None where the episode isn't scored by it.
        """
        self._lines.write({"step": step, "group": group, "rewards": rewards, **episode})

    def close(self) -> None:
        """Closes the file; harmless twice."""
        self._lines.close()


def read_episodes(path: Path) -> Iterator[dict[str, Any]]:
    """The episodes in order of writing; none of a missing file."""
    return read_json_lines(path)


@dataclass
class EpisodeCounts:
    """How many episodes were played, and how many of them were lost for which reasons."""

    episodes: int = 0
    lost: int = 0
    reasons: Counter[str] = field(default_factory=Counter)


def count_episodes(path: Path) -> EpisodeCounts:
    """Counts the episodes of a file; a missing one has none."""
    counts = EpisodeCounts()
    for episode in read_episodes(path):
        counts.episodes += 1
        lost = episode.get("lost")
        # None is the only value of an episode that counts: an empty reason is a reason that nobody gave.
        if lost is not None:
            counts.lost += 1
            counts.reasons[str(lost)] += 1
    return counts
