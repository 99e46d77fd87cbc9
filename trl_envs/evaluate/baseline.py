"""The baseline child: `python -m trl_envs.evaluate.baseline RUN_DIR --episodes N [--model]`.

It reads config.yaml and plan.json of the run directory, has random play, the game's solver, nobody and, if asked, the
config's model play on the servers that run already, lints the reward, and leaves baseline.json for the launcher. The
scripted players and the model go through the same loop, rows, tools and terms as evaluations.
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

from trl_envs.agent.dataset import build_rows
from trl_envs.agent.policies import SOLVER, Policy, find_policy, random_player
from trl_envs.agent.targets import load_target
from trl_envs.agent.terms import RewardTerm, build_terms
from trl_envs.config.schema import TrainConfig
from trl_envs.config.store import load_config
from trl_envs.errors import TrainingFailed, TrlEnvError
from trl_envs.evaluate import lints
from trl_envs.evaluate.batches import PlaysEpisodes, ScoredEpisode, play_rows
from trl_envs.evaluate.lints import Trial, Trials, find_lints, weighted_sum
from trl_envs.evaluate.players import build_player
from trl_envs.evaluate.sampling import Sampling
from trl_envs.evaluate.scripted import ScriptedPlayer, do_nothing, stubborn
from trl_envs.evaluate.summary import invalid_actions, summarize
from trl_envs.evaluate.tools import async_loop
from trl_envs.evaluate.worker import check_lost, run_factories
from trl_envs.paths import make_importable
from trl_envs.results.baseline import Baseline, EnvironmentBaseline, PlayerResult, write_baseline
from trl_envs.results.episodes import EpisodeWriter
from trl_envs.results.outcome import Outcome
from trl_envs.results.rundir import RunDirectory
from trl_envs.results.statistics import estimate

# Of those who do the same every time.
FEW_EPISODES = 20
# Groups of one seed, each played so often at random.
GROUPS, GROUP_SIZE = 10, 4


def main(arguments: list[str]) -> int:
    """Plays the run in the directory that the arguments name; the exit code is the error's."""
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    parser = argparse.ArgumentParser(prog="python -m trl_envs.evaluate.baseline")
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--episodes", type=int, required=True, help="of each player and environment")
    parser.add_argument("--model", action="store_true", help="have the config's model play too")
    asked = parser.parse_args(arguments)
    run = RunDirectory(asked.run_dir)
    try:
        write_baseline(run, play_baseline(run, asked.episodes, with_model=asked.model))
        return 0
    except TrlEnvError as error:
        if error.__cause__ is not None:
            traceback.print_exception(error.__cause__)
        write_baseline(run, Outcome.of_error(error))
        return error.exit_code
    except Exception as error:
        traceback.print_exc()
        said = "".join(traceback.format_exception(error)[-2:]).strip()
        failed = TrainingFailed(f"the baseline failed: {said}", "mend the line that it names")
        write_baseline(run, Outcome.of_error(failed))
        return failed.exit_code


def play_baseline(run: RunDirectory, episodes: int, *, with_model: bool) -> Baseline:
    """Plays every environment by every player.

    Args:
        run: Directory with config.yaml and plan.json; takes the episodes.
        episodes: Of each player and environment.
        with_model: Whether the config's model plays too.

    Raises:
        ConfigError: A name or a value of the config that can't be used.
        TrainingFailed: A reward term failed, or too many episodes were lost.
    """
    config = load_config(run.config_file)
    plan = json.loads(run.plan_file.read_text(encoding="utf-8"))
    make_importable(plan["import_folders"])
    factories, terms = run_factories(config, plan), build_terms(config.envs)
    with ExitStack() as stack:
        writer = EpisodeWriter(run.episodes_file)
        stack.callback(writer.close)
        workers = stack.enter_context(ThreadPoolExecutor(min(one["sessions"] for one in plan["environments"].values())))
        loop = stack.enter_context(async_loop())
        model = _model(config, plan["device"], stack) if with_model else None
        found = {}
        for name in config.envs:
            bench = _Bench(name, config, plan, factories[name], [t for t in terms if t.environment == name], writer)
            players = {
                who: ScriptedPlayer(policy, config.eval.seed, workers, loop) for who, policy in bench.policies().items()
            }
            found[name] = bench.judge({**players, **({lints.MODEL: model} if model is not None else {})}, episodes)
    return Baseline(found)


def _model(config: TrainConfig, device: str, stack: ExitStack) -> PlaysEpisodes:
    import torch

    player = build_player(config, device, Sampling.of_run(config.grpo, config.eval.temperature), stack)
    torch.manual_seed(config.eval.seed)
    return player


@dataclass(frozen=True)
class _Bench:
    """One environment: its factory and terms, and where its episodes are written."""

    name: str
    config: TrainConfig
    plan: Mapping[str, Any]
    factory: Callable[[], Any]
    terms: list[RewardTerm]
    writer: EpisodeWriter

    def policies(self) -> dict[str, Policy]:
        """The scripted players that there are."""
        named = self.config.envs[self.name].environment["_target_"]
        target = load_target(named, f"envs.{self.name}.environment._target_")
        solver = find_policy(target, SOLVER)  # type: ignore[arg-type]
        at_random = random_player(target, self.factory())  # type: ignore[arg-type]
        players = {lints.RANDOM: at_random, lints.NOTHING: do_nothing, lints.GROUPS: at_random}
        players[lints.STUBBORN] = stubborn(at_random)
        return {**players, **({lints.SOLVER: solver} if solver is not None else {})}

    def judge(self, players: Mapping[str, PlaysEpisodes], episodes: int) -> EnvironmentBaseline:
        """Plays, and finds what is wrong with the reward.

        Raises:
            TrainingFailed: A reward term failed, or too many episodes were lost.
        """
        played = {who: self._play(who, player, self._rows(who, episodes)) for who, player in players.items()}
        for who, scored in played.items():
            check_lost(scored, f"the baseline of {self.name} ({who})", self.config.rollout.max_lost_fraction)
        weights = {term.full_name: term.weight for term in self.terms}
        shown = [who for who in (lints.RANDOM, lints.SOLVER, lints.MODEL, lints.NOTHING) if who in played]
        return EnvironmentBaseline(
            {who: self._result(played[who], weights) for who in shown},
            find_lints(Trials(self.name, weights, {who: _trials(scored) for who, scored in played.items()})),
        )

    def _rows(self, who: str, episodes: int) -> list[dict[str, Any]]:
        """Rows as they are trained on: what the reward is worth on those decides."""
        few = min(episodes, FEW_EPISODES)
        seeds = {lints.NOTHING: few, lints.STUBBORN: few, lints.GROUPS: GROUPS}.get(who, episodes)
        rows = build_rows({self.name: replace(self.config.envs[self.name], episodes=seeds)})
        return [row for row in rows for _ in range(GROUP_SIZE if who == lints.GROUPS else 1)]

    def _play(self, who: str, player: PlaysEpisodes, rows: Sequence[dict[str, Any]]) -> list[ScoredEpisode]:
        return list(self._written(who, play_rows(player, self.factory, self.terms, rows, self._at_once())))

    def _at_once(self) -> int:
        return int(self.plan["environments"][self.name]["sessions"])

    def _written(self, who: str, batches: Iterator[list[ScoredEpisode]]) -> Iterator[ScoredEpisode]:
        for batch in batches:
            for one in batch:
                self.writer.write({"mode": who, **one.episode.as_dict()}, step=0, group=0, rewards=one.rewards)
                yield one

    def _result(self, played: Sequence[ScoredEpisode], weights: Mapping[str, float]) -> PlayerResult:
        figures = summarize(self.name, played, self.terms)
        kept = [one for one in played if one.episode.lost is None]
        totals = [total for one in kept if (total := weighted_sum(one.rewards, weights)) is not None]
        return PlayerResult(
            figures.episodes,
            figures.lost,
            figures.wins,
            estimate(totals),
            figures.terms,
            figures.turns,
            estimate([invalid_actions(one.episode, one.rollout.tool_failures) for one in kept]),
        )


def _trials(played: Sequence[ScoredEpisode]) -> list[Trial]:
    return [Trial(one.episode.seed, one.rollout.tool_calls, one.rewards) for one in played if one.episode.lost is None]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
