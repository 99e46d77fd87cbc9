"""What training played, out of episodes.jsonl: each episode's scores, and with which others it was compared."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from trl_envs.results.jsonlines import parse_line
from trl_envs.results.rundir import RunDirectory

Scores = dict[str, float | None]
# Rewards closer than this are the same: the trainer adds them up in single precision.
SAME = 1e-6


@dataclass(frozen=True)
class BatchShape:
    """How training deals its episodes out.

    Args:
        num_generations: Episodes a group.
        per_process: Episodes of a generation batch that one process plays.
    """

    num_generations: int
    per_process: int


@dataclass(frozen=True)
class Played:
    """One episode of training.

    Args:
        offset_bytes: Where its line begins in the file.
        step: The optimizer step that it was played for.
        group: What it shares with those that it is compared with.
        environment: Name of its environment.
        lost: Why it can't be scored; None for one that counts.
        scores: Value of each of its terms by full name, unweighted; None is unscored.
    """

    offset_bytes: int
    step: int
    group: tuple[int, ...]
    environment: str
    lost: str | None
    scores: Scores


def read_shape(run: RunDirectory) -> BatchShape | None:
    """The shape in a run's plan.json; None of a run that got none."""
    try:
        batch = json.loads(run.plan_file.read_text(encoding="utf-8"))["batch"]
        return BatchShape(int(batch["num_generations"]), int(batch["per_process"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def recorded_scores(line: Mapping[str, Any]) -> Scores:
    """The terms as they were recorded."""
    return dict(line.get("rewards") or {})


def read_played(
    path: Path, shape: BatchShape | None, scores: Callable[[Mapping[str, Any]], Scores] = recorded_scores
) -> list[Played]:
    """The episodes of training in order; none of a missing file.

    Those that a resumed run played again after its checkpoint take the place of the earlier attempt's.

    Args:
        path: episodes.jsonl.
        shape: Of the generation batch; None takes each process's groups as they were numbered.
        scores: What a line scores.
    """
    kept: list[Played] = []
    if not path.exists():
        return kept
    attempt, offset = 0, 0
    counts: Counter[tuple[int, int]] = Counter()
    with path.open("rb") as lines:
        for line in lines:
            start, offset = offset, offset + len(line)
            entry = parse_line(line)
            if entry is None or entry.get("mode", "train") != "train" or not isinstance(entry.get("step"), int):
                continue
            step, process = entry["step"], int(entry.get("process", 0))
            if entry.get("attempt", 1) != attempt:
                attempt = entry.get("attempt", 1)
                counts.clear()
                kept = [one for one in kept if one.step < step]
            number = counts[step, process]
            counts[step, process] += 1
            group = (step, *_group(number, process, int(entry.get("group", 0)), shape))
            kept.append(Played(start, step, group, str(entry.get("environment", "")), entry.get("lost"), scores(entry)))
    return kept


def _group(number: int, process: int, numbered: int, shape: BatchShape | None) -> tuple[int, ...]:
    """Of a step's episodes, which ones are compared with this one.

    Args:
        number: How many the process had played before in this step.
        process: Which process.
        numbered: The group as the process numbered it.
        shape: Of the generation batch.
    """
    if shape is None:
        return process, numbered
    # A step may play several batches. In each, TRL lines the processes up and cuts the line into groups.
    batch, index = divmod(number, shape.per_process)
    return batch, (process * shape.per_process + index) // shape.num_generations


def weighted_sum(scores: Scores, weights: Mapping[str, float]) -> float | None:
    """What GRPO compares; None for an episode that no term of `weights` scores."""
    scored = [weights[name] * value for name, value in scores.items() if value is not None and name in weights]
    return sum(scored) if scored else None


def groups_of(played: Iterable[Played]) -> list[list[Played]]:
    """The groups, in order of steps."""
    ordered = sorted(played, key=lambda one: one.group)
    return [list(group) for _, group in groupby(ordered, key=lambda one: one.group)]


def differs(values: Sequence[float | None]) -> bool:
    """Whether the values that there are tell a group's episodes apart."""
    there = [value for value in values if value is not None]
    return bool(there) and max(there) - min(there) > SAME
