"""The evaluation child: `python -m trl_envs.evaluate.worker RUN_DIR --name before [--model PATH]`.

It reads config.yaml and plan.json of the run directory, plays `eval.episodes` episodes of every environment on the
servers that run already, and leaves eval/NAME.json and the episodes in eval/NAME.jsonl. `train` has one before and one
after training, `eval` one for each player.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trl_envs.agent.clock import EnvironmentClock
from trl_envs.agent.environments import build_factories
from trl_envs.agent.policies import SOLVER
from trl_envs.agent.targets import load_target
from trl_envs.agent.terms import RewardTerm, build_terms
from trl_envs.config.schema import TrainConfig
from trl_envs.config.store import load_config
from trl_envs.config.token import token_for
from trl_envs.errors import TrainingFailed, TrlEnvError
from trl_envs.evaluate.players import (
    LARGEST_BATCH,
    POLICIES,
    TRANSFORMERS,
    VLLM,
    Asked,
    build_endpoint_player,
    build_player,
    build_scripted,
)
from trl_envs.evaluate.sampling import Sampling
from trl_envs.evaluate.summary import GameTerms, summarize
from trl_envs.paths import make_importable
from trl_envs.results.episodes import EpisodeWriter
from trl_envs.results.evaluation import Evaluation, forget_evaluation, write_evaluation
from trl_envs.results.headstart import HOLD
from trl_envs.results.outcome import Outcome
from trl_envs.results.rundir import RunDirectory

if TYPE_CHECKING:
    from trl_envs.evaluate.batches import PlaysEpisodes, ScoredEpisode


def main(arguments: list[str]) -> int:
    """Evaluates a run's model; the exit code is the error's."""
    # What TRL calls on transformers is for the two of them to agree on; a person who trains can't act on it.
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    parser = argparse.ArgumentParser(prog="python -m trl_envs.evaluate.worker", description=__doc__)
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--name", required=True, help="of the files under eval/, such as before")
    parser.add_argument("--model", help="another model than the config's; with --base-url its name there")
    parser.add_argument("--backend", choices=(TRANSFORMERS, VLLM), default=TRANSFORMERS)
    parser.add_argument("--policy", choices=POLICIES, help="a scripted player instead of a model")
    parser.add_argument("--base-url", help="of an OpenAI-compatible endpoint that has the model")
    parser.add_argument("--key-variable", default=Asked.key_variable, help="environment variable with its key")
    parser.add_argument("--plain", action="store_true", help="send it only what OpenAI's own API knows")
    parser.add_argument(HOLD, action="store_true", help="import everything, then wait for the launcher's go")
    asked = parser.parse_args(arguments)
    run = RunDirectory(asked.run_dir)
    forget_evaluation(run, asked.name)
    try:
        player = Asked(asked.backend, asked.policy, asked.base_url, asked.key_variable, asked.plain)
        write_evaluation(run, evaluate(run, asked.name, asked.model, player, hold=asked.hold), asked.name)
        return 0
    except TrlEnvError as error:
        if error.__cause__ is not None:
            traceback.print_exception(error.__cause__)
        write_evaluation(run, Outcome.of_error(error), asked.name)
        return error.exit_code
    except Exception as error:
        traceback.print_exc()
        failed = TrainingFailed(f"the evaluation {asked.name} failed: {type(error).__name__}: {error}")
        write_evaluation(run, Outcome.of_error(failed), asked.name)
        return failed.exit_code


@dataclass(frozen=True)
class _Table:
    """What is played on: each environment's factory and sessions, and the terms."""

    config: TrainConfig
    plan: dict[str, Any]
    factories: dict[str, Callable[[], Any]]
    terms: list[RewardTerm]


def evaluate(
    run: RunDirectory, name: str, model: str | None = None, asked: Asked | None = None, *, hold: bool = False
) -> Evaluation:
    """Plays and scores.

    Args:
        run: With config.yaml and plan.json; the plan's servers are running.
        name: Of the evaluation.
        model: As `model.path`; None takes the config's.
        asked: Which player; None plays the model with transformers.
        hold: Whether to wait for the launcher's go before anything but libraries is loaded.

    Raises:
        ConfigError: A name or a value of the config that can't be used.
        TrainingFailed: A reward term failed, or too many episodes were lost.
    """
    config = load_config(run.config_file)
    if model is not None:
        config.model = replace(config.model, path=model)
    plan = json.loads(run.plan_file.read_text(encoding="utf-8"))
    make_importable(plan["import_folders"])
    # Before torch is imported, so that a typo costs a second.
    table = _Table(config, plan, run_factories(config, plan), build_terms(config.envs))
    return _evaluate(run, name, table, asked or Asked(), hold=hold)


def run_factories(config: TrainConfig, plan: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    """The factories of a run's environments, on the servers of its plan.json.

    Raises:
        ConfigError: A class that isn't there, isn't an environment, or doesn't take its settings.
    """
    servers = plan["environments"]
    return build_factories(
        config.envs,
        {name: tuple(server["urls"]) for name, server in servers.items()},
        config.rollout,
        {name: token_for(config.server) if server["token"] else None for name, server in servers.items()},
        EnvironmentClock(),
    )


def _evaluate(run: RunDirectory, name: str, table: _Table, asked: Asked, *, hold: bool) -> Evaluation:
    config = table.config
    sampling = Sampling.of_run(config.grpo, config.eval.temperature)
    # Who plays the same game the same way every time makes one observation of it.
    by_game = sampling.temperature == 0 if asked.policy is None else asked.policy == SOLVER
    episodes_file = run.eval_dir / f"{name}.jsonl"
    # An earlier attempt's episodes are no part of this evaluation.
    episodes_file.unlink(missing_ok=True)
    writer, results = EpisodeWriter(episodes_file), {}
    with ExitStack() as stack:
        stack.callback(writer.close)
        player_of = _players(table, asked, sampling, stack, hold_for=run if hold else None)
        started = time.perf_counter()
        for environment, env in config.envs.items():
            played = _play(table, player_of(environment), environment, name, writer)
            target = load_target(env.environment["_target_"], f"envs.{environment}.environment._target_")
            game = GameTerms.of(target)  # type: ignore[arg-type]
            results[environment] = summarize(environment, played, table.terms, game, by_game=by_game)
        seconds = round(time.perf_counter() - started, 3)
    model = asked.policy or config.model.path
    return Evaluation(name, model, sampling.temperature, config.eval.seed, seconds, results, asked.described)


def _players(
    table: _Table, asked: Asked, sampling: Sampling, stack: ExitStack, *, hold_for: RunDirectory | None
) -> Callable[[str], PlaysEpisodes]:
    """Gives the player of each environment: a scripted one knows one game, a model plays all."""
    config, policy = table.config, asked.policy
    if policy is not None:
        return lambda name: build_scripted(config, name, policy, table.factories[name], stack)
    if asked.base_url is not None:
        endpoint = build_endpoint_player(config, asked, sampling, stack)
        return lambda name: endpoint
    import torch

    device = table.plan["device"]
    player = build_player(config, device, sampling, stack, backend=asked.backend, hold_for=hold_for)

    def seeded(name: str) -> PlaysEpisodes:
        # Each environment's draws are its own, however many episodes the one before it played.
        torch.manual_seed(config.eval.seed)
        return player

    return seeded


def _play(
    table: _Table, player: PlaysEpisodes, environment: str, name: str, writer: EpisodeWriter
) -> list[ScoredEpisode]:
    """Plays all episodes of one environment and writes them down.

    Raises:
        TrainingFailed: More of them were lost than `rollout.max_lost_fraction` allows.
    """
    from trl_envs.evaluate.batches import evaluation_rows, play_rows

    config = table.config
    rows = evaluation_rows(environment, config.envs[environment], config.eval.seed, config.eval.episodes)
    batch_size = min(LARGEST_BATCH, table.plan["environments"][environment]["sessions"])
    played: list[ScoredEpisode] = []
    for batch in play_rows(player, table.factories[environment], table.terms, rows, batch_size):
        for one in batch:
            writer.write(_entry(one, name), step=0, group=len(played), rewards=one.rewards)
            played.append(one)
    check_lost(played, f"the evaluation of {environment}", config.rollout.max_lost_fraction)
    return played


def _entry(one: ScoredEpisode, name: str) -> dict[str, Any]:
    rollout = one.rollout
    return {
        "mode": name,
        **one.episode.as_dict(),
        "end": rollout.end,
        "tokens": rollout.tokens,
        "messages": [*rollout.prompt, *rollout.completion],
    }


def check_lost(played: Sequence[ScoredEpisode], what: str, max_lost_fraction: float) -> None:
    """Does nothing while few enough episodes were lost.

    Args:
        played: The episodes.
        what: Of what they are part.
        max_lost_fraction: Share of them that may be lost.

    Raises:
        TrainingFailed: More of them were.
    """
    reasons = Counter(one.episode.lost for one in played if one.episode.lost is not None)
    if reasons.total() > max_lost_fraction * len(played):
        reason, count = reasons.most_common(1)[0]
        raise TrainingFailed(
            f"{reasons.total()} of {len(played)} episodes of {what} were lost, {count} of them because {reason}",
            "look at the environment server's log; rollout.max_lost_fraction="
            f"{max_lost_fraction:g} is the share that may be lost",
        )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
