"""What a run's episodes would have scored by other terms: rescored.json, and its table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from trl_envs.results.jsonlines import json_ready
from trl_envs.results.outcome import Outcome
from trl_envs.results.rundir import write_whole
from trl_envs.results.statistics import Estimate

_FILE = "rescored.json"
_ERROR_FILE = "rescored.error.json"


@dataclass(frozen=True)
class Side:
    """One way of scoring the episodes.

    Args:
        weight: Of the term; None for the weighted sum.
        value: Its mean over the episodes that it scores, unweighted.
        groups: Groups in which it differs from episode to episode.
    """

    weight: float | None
    value: Estimate
    groups: int


@dataclass(frozen=True)
class RescoredTerm:
    """One term by the run's own config and by the changed one.

    Args:
        before: None for a term that the run didn't have.
        after: None for a term that is left out.
        changed: Episodes with another value than before, those that only one of the two scores included.
        kept: Whether the recorded values were taken, since the term needs more than a record.
    """

    before: Side | None
    after: Side | None
    changed: int
    kept: bool


@dataclass(frozen=True)
class Rescored:
    """A run's episodes of training, scored anew; JSON-able.

    Args:
        run: The run directory.
        episodes: Episodes, lost ones included.
        lost: Those of them that can't be scored.
        groups: Groups of episodes that GRPO compares with each other.
        gained: Groups of which the weighted sum differs within the group, and didn't before.
        lost_signal: Groups of which it did, and doesn't any more.
        terms: By full name.
        reward: The weighted sum.
    """

    run: str
    episodes: int
    lost: int
    groups: int
    gained: int
    lost_signal: int
    terms: dict[str, RescoredTerm]
    reward: RescoredTerm

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Rescored:
        """The inverse of dataclasses.asdict."""
        terms = {name: _term(entry) for name, entry in data["terms"].items()}
        return cls(**{**data, "terms": terms, "reward": _term(data["reward"])})


def _term(data: Mapping[str, Any]) -> RescoredTerm:
    return RescoredTerm(**{**data, "before": _side(data["before"]), "after": _side(data["after"])})


def _side(data: Mapping[str, Any] | None) -> Side | None:
    return None if data is None else Side(data["weight"], Estimate(**data["value"]), data["groups"])


def write_rescored(folder: Path, found: Rescored | Outcome) -> None:
    """Writes rescored.json whole; the error of a rescoring that failed goes to rescored.error.json instead."""
    name = _FILE if isinstance(found, Rescored) else _ERROR_FILE
    write_whole(folder / name, json.dumps(json_ready(asdict(found)), indent=2, ensure_ascii=False) + "\n")


def read_rescored(folder: Path) -> Rescored | Outcome | None:
    """What was found, the error, or None if there is neither."""
    found, failed = folder / _FILE, folder / _ERROR_FILE
    if found.exists():
        return Rescored.from_dict(json.loads(found.read_text(encoding="utf-8")))
    if failed.exists():
        return Outcome(**json.loads(failed.read_text(encoding="utf-8")))
    return None


def rescored_table(found: Rescored) -> Table:
    """Each term and the weighted sum, recorded and anew: weight, mean, and in how many groups it differs."""
    table = Table(caption_justify="left")
    table.add_column("", overflow="fold")
    for heading in ("weight", "mean", "groups it tells apart", "episodes changed"):
        table.add_column(heading, justify="right")
    for name, term in found.terms.items():
        table.add_row(Text(name), *_cells(term))
    table.add_section()
    table.add_row(Text("weighted sum"), *_cells(found.reward))
    lost = f", {found.lost} of them lost and unscored" if found.lost else ""
    table.caption = f"{found.episodes} episodes{lost}, in {found.groups} groups. Recorded -> scored anew."
    return table


def signal_lines(found: Rescored) -> list[str]:
    """In plain words: what becomes of the groups from which GRPO learns, and what wasn't scored anew."""
    before, after = found.reward.before, found.reward.after
    assert before is not None and after is not None
    lines = [
        f"groups with signal: {before.groups} of {found.groups} as recorded, {after.groups} as scored anew "
        f"({found.gained} gained, {found.lost_signal} lost)"
    ]
    kept = [name for name, term in found.terms.items() if term.kept]
    if kept:
        lines.append(f"taken as recorded, since they need more than the record: {', '.join(kept)}")
    return lines


def _cells(term: RescoredTerm) -> list[Text]:
    before, after = term.before, term.after
    changed = Text(str(term.changed), "" if term.changed else "dim")
    return [
        _pair(_weight(before), _weight(after)),
        _pair(_mean(before), _mean(after)),
        _pair(*("-" if side is None else str(side.groups) for side in (before, after))),
        changed,
    ]


def _pair(before: str, after: str) -> Text:
    return Text(after, "dim") if before == after else Text.assemble((before, "dim"), " -> ", (after, "bold"))


def _weight(side: Side | None) -> str:
    if side is None:
        return "-"
    return "" if side.weight is None else f"{side.weight:g}"


def _mean(side: Side | None) -> str:
    if side is None:
        return "-"
    return "unscored" if side.value.mean is None else f"{side.value.mean:.3f}"
