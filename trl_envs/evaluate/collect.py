"""The collecting child: `python -m trl_envs.evaluate.collect RUN_DIR --out DIR --policy solver --episodes N --seed S`.

It reads config.yaml and plan.json of the run directory, plays on the servers that run already whatever DIR lacks, and
appends every episode to played.jsonl there. Rows, tools, terms and loop are those of evaluations and baselines.
"""

from __future__ import annotations

import argparse
import json
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trl_envs.agent.dataset import build_rows, episode_seed
from trl_envs.agent.policies import SOLVER, find_explain, random_player, scripted_player
from trl_envs.agent.targets import load_target
from trl_envs.agent.terms import RewardTerm, build_terms
from trl_envs.config.grpo_fields import grpo_value
from trl_envs.config.schema import TrainConfig
from trl_envs.config.store import load_config
from trl_envs.errors import TrainingFailed, TrlEnvError
from trl_envs.evaluate.batches import PlaysEpisodes, ScoredEpisode, play_rows
from trl_envs.evaluate.games import game_of
from trl_envs.evaluate.lints import weighted_sum
from trl_envs.evaluate.players import build_player
from trl_envs.evaluate.scripted import ScriptedPlayer, noisy
from trl_envs.evaluate.tools import async_loop
from trl_envs.evaluate.worker import check_lost, run_factories
from trl_envs.paths import make_importable
from trl_envs.results.collection import Collection
from trl_envs.results.jsonlines import JsonLinesWriter
from trl_envs.results.outcome import Outcome, write_outcome
from trl_envs.results.rundir import RunDirectory


@dataclass(frozen=True)
class Wanted:
    """What is to be collected.

    Args:
        policy: solver, random or model.
        episodes: Of each environment.
        seed: From which the episode seeds are derived; None takes each environment's own.
        thoughts: Whether a reasoning goes before each call, where the player gives one.
        noise: Share of the solver's moves that are made at random instead.
    """

    policy: str
    episodes: int
    seed: int | None
    thoughts: bool
    noise: float = 0.0


def main(arguments: list[str]) -> int:
    """Collects; the exit code is the error's, which is left in outcome.json."""
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    parser = argparse.ArgumentParser(prog="python -m trl_envs.evaluate.collect")
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="folder of the collection")
    parser.add_argument("--policy", choices=("solver", "random", "model"), required=True)
    parser.add_argument(
        "--episodes", type=int, required=True, help="of each environment, those played already included"
    )
    parser.add_argument("--seed", type=int, help="of the episodes; each environment's own by default")
    parser.add_argument("--thoughts", action="store_true", help="keep the reasoning before each call")
    parser.add_argument("--noise", type=float, default=0.0, help="share of the solver's moves that are made at random")
    asked = parser.parse_args(arguments)
    wanted = Wanted(asked.policy, asked.episodes, asked.seed, asked.thoughts, asked.noise)
    run = RunDirectory(asked.run_dir)
    try:
        collect(run, Collection(asked.out), wanted)
        write_outcome(run, Outcome())
        return 0
    except TrlEnvError as error:
        if error.__cause__ is not None:
            traceback.print_exception(error.__cause__)
        write_outcome(run, Outcome.of_error(error))
        return error.exit_code
    except Exception as error:
        traceback.print_exc()
        failed = TrainingFailed(f"collecting failed: {type(error).__name__}: {error}", "mend what it names")
        write_outcome(run, Outcome.of_error(failed))
        return failed.exit_code


def collect(run: RunDirectory, collection: Collection, wanted: Wanted) -> None:
    """Plays what the collection lacks.

    Args:
        run: Directory with config.yaml and plan.json.
        collection: Takes the games.
        wanted: What is to be in it.

    Raises:
        ConfigError: A name or a value of the config that can't be used; a game without a solver.
        TrainingFailed: A reward term failed, or too many episodes were lost.
    """
    config = load_config(run.config_file)
    plan = json.loads(run.plan_file.read_text(encoding="utf-8"))
    make_importable(plan["import_folders"])
    factories, terms = run_factories(config, plan), build_terms(config.envs)
    done = collection.numbers()
    with ExitStack() as stack:
        writer = stack.enter_context(JsonLinesWriter(collection.played_file))
        players = _Players(config, plan, wanted, stack)
        for name in config.envs:
            own = [term for term in terms if term.environment == name]
            todo = [number for number in range(wanted.episodes) if number not in done.get(name, ())]
            if todo:
                desk = _Desk(name, config, wanted, factories[name], own, writer)
                desk.play(players.of(name, factories[name], todo), todo, plan["environments"][name]["sessions"])


class _Players:
    """Makes who plays each environment; the model is loaded once."""

    def __init__(self, config: TrainConfig, plan: Mapping[str, Any], wanted: Wanted, stack: ExitStack) -> None:
        self._config = config
        self._wanted = wanted
        self._model: PlaysEpisodes | None = None
        if wanted.policy == "model":
            from trl_envs.evaluate.sampling import Sampling

            self._model = build_player(config, plan["device"], Sampling.of_run(config.grpo, None), stack)
            return
        sessions = min(one["sessions"] for one in plan["environments"].values())
        self._workers = stack.enter_context(ThreadPoolExecutor(sessions))
        self._loop = stack.enter_context(async_loop())

    def of(self, name: str, factory: Callable[[], Any], numbers: Sequence[int]) -> PlaysEpisodes:
        """Who plays the episodes of these numbers, in this order."""
        if self._model is not None:
            return self._model
        path = self._config.envs[name].environment["_target_"]
        target = load_target(path, f"envs.{name}.environment._target_")
        solves, environment = self._wanted.policy == SOLVER, factory()
        policy = scripted_player(target, self._wanted.policy, environment)  # type: ignore[arg-type]
        if solves and self._wanted.noise:
            policy = noisy(policy, random_player(target, environment), self._wanted.noise)  # type: ignore[arg-type]
        explain = find_explain(target) if solves and self._wanted.thoughts and not self._wanted.noise else None  # type: ignore[arg-type]
        seed = self._wanted.seed if self._wanted.seed is not None else self._config.envs[name].seed
        return ScriptedPlayer(policy, seed, self._workers, self._loop, numbers=iter(list(numbers)), explain=explain)


@dataclass(frozen=True)
class _Desk:
    """Where the games of one environment are played and written down."""

    name: str
    config: TrainConfig
    wanted: Wanted
    factory: Callable[[], Any]
    terms: list[RewardTerm]
    writer: JsonLinesWriter

    def play(self, player: PlaysEpisodes, numbers: Sequence[int], at_once: int) -> None:
        """Plays the episodes of these numbers; lost ones are left out, so that they are played when it goes on.

        Raises:
            TrainingFailed: A reward term failed, or too many episodes were lost.
        """
        # It loads transformers, which takes seconds.
        from transformers.utils import get_json_schema

        weights = {term.full_name: term.weight for term in self.terms}
        kwargs = grpo_value(self.config.grpo, "chat_template_kwargs") or {}
        played: list[ScoredEpisode] = []
        for number, one in self._episodes(player, numbers, at_once):
            played.append(one)
            if one.episode.lost is None:
                game = game_of(one.rollout, get_json_schema, kwargs, thoughts=self.wanted.thoughts)
                facts = {"environment": self.name, "number": number, "seed": one.episode.seed, "rewards": one.rewards}
                reward = weighted_sum(one.rewards, weights)
                self.writer.write({**facts, "reward": reward, "end": one.rollout.end, "game": game})
            if len(played) % at_once == 0 or len(played) == len(numbers):
                check_lost(played, f"the games of {self.name}", self.config.rollout.max_lost_fraction)

    def _episodes(
        self, player: PlaysEpisodes, numbers: Sequence[int], at_once: int
    ) -> Iterator[tuple[int, ScoredEpisode]]:
        env, seed = self.config.envs[self.name], self.wanted.seed
        asked = replace(env, episodes=self.wanted.episodes, seed=env.seed if seed is None else seed)
        rows = build_rows({self.name: asked})
        for start in range(0, len(numbers), at_once):
            batch = numbers[start : start + at_once]
            self._draw_anew(asked.seed, batch[0])
            for scored in play_rows(player, self.factory, self.terms, [rows[number] for number in batch], at_once):
                yield from zip(batch, scored, strict=True)

    def _draw_anew(self, seed: int, number: int) -> None:
        """What a model says follows from the seed and the episode, wherever an interrupted collect goes on."""
        if self.wanted.policy == "model":
            import torch

            torch.manual_seed(episode_seed(seed, f"{self.name} sampled", number))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
