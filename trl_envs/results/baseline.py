"""What a baseline found: baseline.json, figures by environment and player, and lints of the reward."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from trl_envs.results.jsonlines import json_ready
from trl_envs.results.outcome import Outcome
from trl_envs.results.rundir import RunDirectory, write_whole
from trl_envs.results.statistics import Estimate

_FILE = "baseline.json"
_ERROR_FILE = "baseline.error.json"


@dataclass(frozen=True)
class Lint:
    """Something about the reward that keeps a model from learning, JSON-able.

    Args:
        level: `warning`, or `note` for what may be meant so.
        kind: Which lint.
        term: `<environment>.<term>`, or the environment where it is about the weighted sum.
        message: What is wrong, with its numbers.
        hint: What to change.
    """

    level: Literal["warning", "note"]
    kind: str
    term: str
    message: str
    hint: str


@dataclass(frozen=True)
class PlayerResult:
    """Episodes of one player; lost ones are left out of everything but their count.

    Args:
        episodes: Episodes played, lost ones included.
        lost: Those of them that can't be scored.
        wins: Share of episodes won; None for a game that doesn't say.
        reward: Weighted sum of the terms.
        terms: Each term by its name in the recipe, unweighted, over the episodes that it scores.
        turns: Times that the player made a move or, a model, spoke.
        invalid: Calls an episode that failed or that the game refused.
    """

    episodes: int
    lost: int
    wins: Estimate | None
    reward: Estimate
    terms: dict[str, Estimate]
    turns: Estimate
    invalid: Estimate


@dataclass(frozen=True)
class EnvironmentBaseline:
    """One environment.

    Args:
        players: Results by player: random, solver, model, nothing.
        lints: What is wrong with the reward.
    """

    players: dict[str, PlayerResult]
    lints: list[Lint]


@dataclass(frozen=True)
class Baseline:
    """All environments of a recipe, by name."""

    environments: dict[str, EnvironmentBaseline]

    @property
    def lints(self) -> list[Lint]:
        """Those of all environments."""
        return [lint for one in self.environments.values() for lint in one.lints]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Baseline:
        """The inverse of dataclasses.asdict."""
        return cls({name: _environment(entry) for name, entry in data["environments"].items()})


def _environment(data: Mapping[str, Any]) -> EnvironmentBaseline:
    players = {name: _player(entry) for name, entry in data["players"].items()}
    return EnvironmentBaseline(players, [Lint(**entry) for entry in data["lints"]])


def _player(data: Mapping[str, Any]) -> PlayerResult:
    estimates = {name: Estimate(**data[name]) for name in ("reward", "turns", "invalid")}
    wins = None if data["wins"] is None else Estimate(**data["wins"])
    terms = {name: Estimate(**entry) for name, entry in data["terms"].items()}
    return PlayerResult(**{**data, **estimates, "wins": wins, "terms": terms})


def write_baseline(run: RunDirectory, found: Baseline | Outcome) -> None:
    """Writes baseline.json whole; the error of a baseline that failed goes to baseline.error.json instead."""
    name = _FILE if isinstance(found, Baseline) else _ERROR_FILE
    write_whole(run.path / name, json.dumps(json_ready(asdict(found)), indent=2, ensure_ascii=False) + "\n")


def read_baseline(run: RunDirectory) -> Baseline | Outcome | None:
    """What a baseline found, its error, or None if it left neither."""
    found, failed = run.path / _FILE, run.path / _ERROR_FILE
    if found.exists():
        return Baseline.from_dict(json.loads(found.read_text(encoding="utf-8")))
    if failed.exists():
        return Outcome(**json.loads(failed.read_text(encoding="utf-8")))
    return None
