"""What an evaluation found: eval/NAME.json of a run directory, and the episodes it played in eval/NAME.jsonl."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from trl_envs.results.jsonlines import json_ready
from trl_envs.results.outcome import Outcome
from trl_envs.results.rundir import RunDirectory, write_whole
from trl_envs.results.statistics import Estimate


@dataclass(frozen=True)
class EnvironmentResult:
    """Episodes of one environment; lost ones are left out of everything but their count.

    Args:
        episodes: Episodes played, lost ones included.
        lost: Those of them that can't be scored.
        terms: Mean of each reward term by its name in the recipe, unweighted, over the episodes that it scores.
        wins: Share of episodes won; None for a game that doesn't say.
        turns: Times that the model spoke, an episode.
        tokens: Tokens behind the prompt, an episode, tool results included.
        tool_calls: Tool calls of all episodes together.
        tool_failures: Those of them that ended in an error.
        games: Games that can be told apart; several seeds may be one game.
        by_game: Whether estimates count each game once, with the mean of its episodes: who plays a game the same way
            every time learns nothing from playing it twice.
        figures: The game's own figures by name, such as guesses per win, over the episodes that have them.
        reward: Weighted sum of the terms.
    """

    episodes: int
    lost: int
    terms: dict[str, Estimate]
    wins: Estimate | None
    turns: Estimate
    tokens: Estimate
    tool_calls: int
    tool_failures: int
    games: int = 0
    by_game: bool = False
    figures: dict[str, Estimate] = field(default_factory=dict)
    reward: Estimate | None = None


@dataclass(frozen=True)
class Evaluation:
    """One evaluation of one model.

    Args:
        name: `before` or `after`, or that of a player of `trl-env eval`.
        model: Where the model was loaded from, or what else played.
        temperature: Of sampling; 0 is greedy.
        seed: From which the episode seeds were derived.
        seconds: From the first reset to the last score.
        environments: Results by environment name.
        backend: What generated: transformers, vllm, the URL of an endpoint, or a policy.
    """

    name: str
    model: str
    temperature: float
    seed: int
    seconds: float
    environments: dict[str, EnvironmentResult]
    backend: str = "transformers"

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Evaluation:
        """The inverse of dataclasses.asdict."""
        environments = {name: _environment(entry) for name, entry in data["environments"].items()}
        return cls(**{**data, "environments": environments})


def _environment(data: Mapping[str, Any]) -> EnvironmentResult:
    one = {name: Estimate(**data[name]) if data.get(name) else None for name in ("turns", "tokens", "wins", "reward")}
    many = {
        name: {key: Estimate(**entry) for key, entry in data.get(name, {}).items()} for name in ("terms", "figures")
    }
    return EnvironmentResult(**{**data, **one, **many})


def write_evaluation(run: RunDirectory, evaluation: Evaluation | Outcome, name: str) -> None:
    """Writes eval/NAME.json whole; the error of an evaluation that failed goes to eval/NAME.error.json instead."""
    forget_evaluation(run, name)
    suffix = ".json" if isinstance(evaluation, Evaluation) else ".error.json"
    text = json.dumps(json_ready(asdict(evaluation)), indent=2, ensure_ascii=False)
    write_whole(run.eval_dir / f"{name}{suffix}", text + "\n")


def forget_evaluation(run: RunDirectory, name: str) -> None:
    """Removes what an earlier attempt left, so that it can't be taken for this one's."""
    run.eval_dir.mkdir(exist_ok=True)
    for suffix in (".json", ".error.json"):
        (run.eval_dir / f"{name}{suffix}").unlink(missing_ok=True)


def read_evaluation(run: RunDirectory, name: str) -> Evaluation | Outcome | None:
    """What an evaluation found, its error, or None if it left neither."""
    found, failed = run.eval_dir / f"{name}.json", run.eval_dir / f"{name}.error.json"
    if found.exists():
        return Evaluation.from_dict(json.loads(found.read_text(encoding="utf-8")))
    if failed.exists():
        return Outcome(**json.loads(failed.read_text(encoding="utf-8")))
    return None
