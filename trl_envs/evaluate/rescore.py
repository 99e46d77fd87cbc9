"""The rescoring child: `python -m trl_envs.evaluate.rescore RUN_DIR FOLDER`.

It reads the episodes of a run, which it doesn't touch, and from the folder the changed config.yaml and the plan.json
that says from where to import; it leaves rescored.json there. Terms are built and called as in training.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trl_envs.agent.terms import build_terms
from trl_envs.config.grpo_fields import grpo_value
from trl_envs.config.schema import TrainConfig
from trl_envs.config.store import load_config
from trl_envs.envs.episode import Episode
from trl_envs.errors import ConfigError, TrainingFailed, TrlEnvError
from trl_envs.paths import make_importable
from trl_envs.results.outcome import Outcome
from trl_envs.results.played import (
    SAME,
    Played,
    Scores,
    differs,
    groups_of,
    read_played,
    read_shape,
    recorded_scores,
    weighted_sum,
)
from trl_envs.results.rescored import Rescored, RescoredTerm, Side, write_rescored
from trl_envs.results.rundir import RunDirectory
from trl_envs.results.statistics import estimate

_RECORD = ("environment", "seed", "events", "done", "lost", "facts")


def main(arguments: list[str]) -> int:
    """Rescores the run that the arguments name; the exit code is the error's."""
    parser = argparse.ArgumentParser(prog="python -m trl_envs.evaluate.rescore")
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("folder", type=Path, help="holds the changed config.yaml, and takes the result")
    asked = parser.parse_args(arguments)
    run, changed = RunDirectory(asked.run_dir), RunDirectory(asked.folder)
    try:
        make_importable(json.loads(changed.plan_file.read_text(encoding="utf-8"))["import_folders"])
        write_rescored(changed.path, rescore(run, load_config(run.config_file), load_config(changed.config_file)))
        return 0
    except TrlEnvError as error:
        if error.__cause__ is not None:
            traceback.print_exception(error.__cause__)
        write_rescored(changed.path, Outcome.of_error(error))
        return error.exit_code
    except Exception as error:
        traceback.print_exc()
        failed = TrainingFailed(f"the rescoring failed: {type(error).__name__}: {error}")
        write_rescored(changed.path, Outcome.of_error(failed))
        return failed.exit_code


def rescore(run: RunDirectory, before: TrainConfig, after: TrainConfig) -> Rescored:
    """Scores a run's episodes of training by the terms of another config.

    Args:
        run: With episodes.jsonl.
        before: The run's own config.
        after: The same with other reward terms.

    Raises:
        ConfigError: A term that isn't there, doesn't take its numbers, or needs more than a record.
        TrainingFailed: A term failed, or returned no number.
    """
    terms = build_terms(after.envs)
    kept = {term.full_name for term in terms if term.trl_style}
    _refuse_live(kept, before, after)
    scored = [term for term in terms if not term.trl_style]
    shape = read_shape(run)
    recorded = read_played(run.episodes_file, shape)

    def again(line: Mapping[str, Any]) -> Scores:
        was = recorded_scores(line)
        # As in training, an episode has the terms of its own environment.
        episode = Episode.from_dict({name: line[name] for name in _RECORD if name in line})
        new = {
            term.full_name: _single(term.score(episode)) for term in scored if term.environment == episode.environment
        }
        return {**{name: value for name, value in was.items() if name in kept}, **new}

    anew = read_played(run.episodes_file, shape, again)
    return _compared(run, _Scoring.of(before, recorded), _Scoring.of(after, anew), kept)


def _refuse_live(kept: set[str], before: TrainConfig, after: TrainConfig) -> None:
    """Refuses to score anew what reads live environments or completions; unchanged, its recorded values are right.

    Raises:
        ConfigError: Such a term has other numbers, or wasn't recorded.
    """
    for name in sorted(kept):
        was, now = (_settings(config, name) for config in (before, after))
        if was is None or not was.pop("weight", 1.0) or was != {k: v for k, v in (now or {}).items() if k != "weight"}:
            key = "envs.{}.rewards.{}".format(*name.split(".", 1))
            raise ConfigError(
                f"{key}: {(now or {}).get('_target_')} scores live environments or completions, which episodes.jsonl "
                "doesn't hold: it can't be scored anew",
                f"leave it as the run had it (another weight is fine), leave it out ({key}.weight=0), or write it as a "
                "function of the episode",
            )


def _settings(config: TrainConfig, full_name: str) -> dict[str, Any] | None:
    environment, _, name = full_name.partition(".")
    node = config.envs[environment].rewards.get(name) if environment in config.envs else None
    return None if node is None else dict(node)


def _single(value: float | None) -> float | None:
    """The value in single precision, as the trainer holds and records it."""
    return None if value is None else ctypes.c_float(value).value


@dataclass(frozen=True)
class _Scoring:
    """Episodes as one config scores them."""

    played: list[Played]
    groups: list[list[Played]]
    weights: dict[str, float]
    # Whether TRL looks at each term's spread before it adds them up (multi_objective_aggregation).
    by_term: bool

    @classmethod
    def of(cls, config: TrainConfig, played: list[Played]) -> _Scoring:
        weights = {
            f"{name}.{term}": float(weight)
            for name, env in config.envs.items()
            for term, node in env.rewards.items()
            if (weight := node.get("weight", 1.0))
        }
        by_term = grpo_value(config.grpo, "multi_objective_aggregation") == "normalize_then_sum"
        return cls(played, groups_of(played), weights, by_term)

    def side(self, name: str) -> Side | None:
        """One term; None if this config doesn't have it."""
        if name not in self.weights:
            return None
        scored = [value for one in self.played if (value := one.scores.get(name)) is not None]
        return Side(self.weights[name], estimate(scored), sum(self._differs(group, name) for group in self.groups))

    def reward(self) -> Side:
        """The weighted sum."""
        sums = [value for one in self.played if (value := self.sum(one)) is not None]
        return Side(None, estimate(sums), sum(self.signals()))

    def sum(self, one: Played) -> float | None:
        """What GRPO compares."""
        return weighted_sum(one.scores, self.weights)

    def signals(self) -> list[bool]:
        """For each group, whether GRPO learns from it."""
        if self.by_term:
            return [any(self._differs(group, name) for name in self.weights) for group in self.groups]
        return [differs([self.sum(one) for one in group]) for group in self.groups]

    def _differs(self, group: list[Played], name: str) -> bool:
        return differs([one.scores.get(name) for one in group])


def _compared(run: RunDirectory, before: _Scoring, after: _Scoring, kept: set[str]) -> Rescored:
    terms = {}
    for name in dict.fromkeys([*before.weights, *after.weights]):
        pairs = [
            (old.scores.get(name), new.scores.get(name)) for old, new in zip(before.played, after.played, strict=True)
        ]
        terms[name] = RescoredTerm(before.side(name), after.side(name), _changed(pairs), name in kept)
    sums = [(before.sum(old), after.sum(new)) for old, new in zip(before.played, after.played, strict=True)]
    signals = list(zip(before.signals(), after.signals(), strict=True))
    return Rescored(
        run=str(run.path),
        episodes=len(before.played),
        lost=sum(one.lost is not None for one in before.played),
        groups=len(signals),
        gained=sum(new and not old for old, new in signals),
        lost_signal=sum(old and not new for old, new in signals),
        terms=terms,
        reward=RescoredTerm(before.reward(), after.reward(), _changed(sums), False),
    )


def _changed(pairs: Sequence[tuple[float | None, float | None]]) -> int:
    """Episodes with another value than before."""
    return sum(
        (old is None) != (new is None) or (old is not None and new is not None and abs(new - old) > SAME)
        for old, new in pairs
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
