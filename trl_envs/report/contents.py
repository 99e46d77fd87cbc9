"""What a report says of one run, read from its directory."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trl_envs.config.frozen import flat_values
from trl_envs.config.schema import TrainConfig
from trl_envs.config.store import load_config
from trl_envs.errors import ConfigError
from trl_envs.report.games import Drawing, draw_game
from trl_envs.results.comparison import ComparedTerm, compare, comparison_caption
from trl_envs.results.evaluation import Evaluation, read_evaluation
from trl_envs.results.jsonlines import parse_line
from trl_envs.results.metrics import read_metrics
from trl_envs.results.panels import Panel, build_panels
from trl_envs.results.played import Played, read_played, read_shape, weighted_sum
from trl_envs.results.record import RunRecord
from trl_envs.results.rundir import RunDirectory
from trl_envs.results.runs import summarize_run
from trl_envs.results.tables import OutcomeRow, outcome_caption, outcome_rows

# Of the best and of the worst episodes of each environment.
SHOWN = 2


# Characters of what a tool answered.
_LONGEST = 3000


@dataclass(frozen=True)
class ToolCall:
    """One tool call: as it would be typed, what came of it, and whether that was an error."""

    said: str
    answer: str
    failed: bool

    @classmethod
    def of(cls, event: Mapping[str, Any]) -> ToolCall:
        """The call of an event of episodes.jsonl."""
        given = event.get("arguments")
        arguments = given.items() if isinstance(given, dict) else ()
        said = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in arguments)
        error = event.get("error")
        answer = str(event.get("result") or "" if error is None else error).strip()
        more = len(answer) - _LONGEST
        shown = answer if more <= 0 else f"{answer[:_LONGEST]}\n... and {more:,} more characters"
        return cls(f"{event.get('tool')}({said})", shown, error is not None)


@dataclass(frozen=True)
class EpisodeCard:
    """One episode, to be looked at.

    Args:
        kind: `best` or `worst`.
        environment: Name of its environment.
        step: The optimizer step that it was played for.
        seed: Of the episode; None of one without.
        reward: The weighted sum.
        scores: Each term, unweighted; None is unscored.
        drawing: The game, where it is one that can be drawn.
        calls: Its tool calls.
    """

    kind: str
    environment: str
    step: int
    seed: int | None
    reward: float
    scores: dict[str, float | None]
    drawing: Drawing | None
    calls: list[ToolCall]


@dataclass(frozen=True)
class RunContents:
    """One run.

    Args:
        run: Its directory.
        status: finished, failed, interrupted, running, died or unknown.
        record: What was recorded; None if it can't be read.
        config: As resolved.
        values: The same by dotted keys.
        overrides: As typed, an override a line.
        launch: How it was launched, and why so; empty of a run that got no plan.
        watched: Where its live dashboard is, as a command; empty of a run without one.
        outcome: First, last and best values.
        outcome_caption: What they are of.
        compared: Before and after training; empty of a run that wasn't evaluated both times.
        compared_caption: What was played for that.
        panels: Figures over the steps.
        episodes: The best and the worst ones.
    """

    run: RunDirectory
    status: str
    record: RunRecord | None
    config: TrainConfig
    values: dict[str, Any]
    overrides: str
    launch: str
    watched: str
    outcome: list[OutcomeRow]
    outcome_caption: str
    compared: list[ComparedTerm]
    compared_caption: str
    panels: list[Panel]
    episodes: list[EpisodeCard]


def read_contents(run: RunDirectory, config: TrainConfig | None = None) -> RunContents:
    """Reads a run, however far it came.

    Args:
        run: Its directory.
        config: Its config, for a launcher that has it and hurries; None reads config.yaml.

    Raises:
        ConfigError: It is no run directory.
    """
    if not run.config_file.is_file():
        raise ConfigError(f"{run.path} is no run directory", "trl-env runs lists the runs of a folder")
    plan = _plan(run)
    config = config or load_config(run.config_file)
    summary = summarize_run(run)
    metrics = read_metrics(run.metrics_file)
    played = read_played(run.episodes_file, read_shape(run))
    weights = term_weights(config)
    evaluations = [read_evaluation(run, name) for name in ("before", "after")]
    both = [one for one in evaluations if isinstance(one, Evaluation)]
    evaluated = len(both) == len(evaluations)
    return RunContents(
        run=run,
        status=summary.status,
        record=summary.record,
        config=config,
        values=flat_values(config),
        overrides=run.overrides_file.read_text(encoding="utf-8") if run.overrides_file.exists() else "",
        launch=f"{plan['mode']} on {plan['device']}: {plan['reason']}" if plan else "",
        watched=f"trackio show --project {shlex.quote(plan['project'])}"
        if "trackio" in plan.get("report_to", ())
        else "",
        outcome=outcome_rows(metrics),
        outcome_caption=outcome_caption(metrics),
        compared=compare(*both) if evaluated else [],
        compared_caption=comparison_caption(both) if evaluated else "",
        panels=build_panels(metrics, played, weights),
        episodes=_best_and_worst(run, config, played, weights),
    )


def _plan(run: RunDirectory) -> dict[str, Any]:
    try:
        plan: dict[str, Any] = json.loads(run.plan_file.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return plan


def term_weights(config: TrainConfig) -> dict[str, float]:
    """Weight of each reward term by full name, those of weight 0 left out."""
    return {
        f"{name}.{term}": float(weight)
        for name, env in config.envs.items()
        for term, node in env.rewards.items()
        if isinstance(weight := node.get("weight", 1.0), int | float) and weight
    }


def _best_and_worst(
    run: RunDirectory, config: TrainConfig, played: Sequence[Played], weights: Mapping[str, float]
) -> list[EpisodeCard]:
    """Of each environment the episodes that scored most and least; of equal ones the latest."""
    cards = []
    for environment in config.envs:
        scored = [
            (reward, one)
            for one in played
            if one.environment == environment and (reward := weighted_sum(one.scores, weights)) is not None
        ]
        best = _one_a_group(sorted(scored, key=lambda pair: (-pair[0], -pair[1].step)))
        worst = _one_a_group(sorted(scored, key=lambda pair: (pair[0], -pair[1].step)))
        shown = {one.offset_bytes for _, one in best}
        cards += [_card("best", run, *pair) for pair in best]
        cards += [_card("worst", run, *pair) for pair in worst if pair[1].offset_bytes not in shown]
    return cards


def _one_a_group(ordered: Sequence[tuple[float, Played]]) -> list[tuple[float, Played]]:
    """The first ones, each of another group."""
    first: dict[tuple[int, ...], tuple[float, Played]] = {}
    for reward, one in ordered:
        first.setdefault(one.group, (reward, one))
        if len(first) == SHOWN:
            break
    return list(first.values())


def _card(kind: str, run: RunDirectory, reward: float, one: Played) -> EpisodeCard:
    with run.episodes_file.open("rb") as lines:
        lines.seek(one.offset_bytes)
        line = parse_line(lines.readline()) or {}
    return EpisodeCard(
        kind=kind,
        environment=one.environment,
        step=one.step,
        seed=line.get("seed"),
        reward=reward,
        scores=one.scores,
        drawing=draw_game(line),
        calls=[ToolCall.of(event) for event in line.get("events") or [] if isinstance(event, dict)],
    )
