"""From games to a model that has seen some: collecting conversations, and learning from them before GRPO."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from trl_envs.config.compose import Composed
from trl_envs.config.grpo_fields import grpo_value
from trl_envs.config.model_location import SHIPPED, model_location
from trl_envs.config.schema import EnvConfig, TrainConfig
from trl_envs.errors import ConfigError, Interrupted, TrlEnvError
from trl_envs.launch import RECORDED_PACKAGES, machine_facts, wanted_directory, write_down
from trl_envs.machine import installed_versions
from trl_envs.plan.build import build_plan
from trl_envs.plan.sft import SftPlan, build_sft_plan
from trl_envs.plan.spec import ProcessSpec
from trl_envs.preflight.findings import Report, raise_errors
from trl_envs.preflight.sft_rules import check_games, check_sft
from trl_envs.rehearse import SESSIONS, bench_config
from trl_envs.results.collection import Collection, Gathered
from trl_envs.results.metrics import read_metrics
from trl_envs.results.outcome import read_outcome
from trl_envs.results.record import RunRecord, RunStatus, write_record
from trl_envs.results.rundir import RunDirectory, passing_run
from trl_envs.runtime.supervisor import Supervisor
from trl_envs.stage import ended_early, standing
from trl_envs.stage.display import Display

# Sequences that a model continues at once, unless rollout.concurrency says otherwise.
MODEL_SESSIONS = 32
# What of a recipe's environment its games follow from.
_OF_ENVIRONMENT = ("environment", "variables", "prompt", "system_prompt", "rewards")
# By what a model's games follow from it.
_OF_GRPO = (
    *("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "generation_kwargs"),
    *("max_completion_length", "max_tool_calling_iterations"),
)


class CollectDisplay(Display, Protocol):
    """What collecting shows as it goes; it decides nothing."""

    def collecting(self, collection: Collection) -> None:
        """Called a few times a second while the child plays."""


class SftDisplay(Protocol):
    """What a warm-up shows as it goes; it decides nothing."""

    def planned(self, plan: SftPlan, run: RunDirectory) -> None:
        """The plan, before anything starts."""

    def training(self, run: RunDirectory, plan: SftPlan) -> AbstractContextManager[Callable[[], None]]:
        """Around the training; gives what is to be called a few times a second."""


@dataclass(frozen=True)
class Wish:
    """What is to be collected.

    Args:
        policy: solver, random or model (the config's).
        episodes: Of each environment.
        min_reward: Least weighted sum of the terms of a game that is kept; None keeps all.
        seed: From which the episode seeds are derived; None takes each environment's own.
        reasoning: Whether a reasoning goes before each call, where the player gives one; None: unless the recipe turns
            thinking off.
        noise: Share of the solver's moves that are made at random instead, and then all without a reasoning.
    """

    policy: str
    episodes: int
    min_reward: float | None = None
    seed: int | None = None
    reasoning: bool | None = None
    noise: float = 0.0


def collect(composed: Composed, display: CollectDisplay, wish: Wish, out: Path) -> Gathered:
    """Plays games and writes those that are worth it as conversations to learn from.

    What an interrupted call has played is kept, and the same call goes on from there; of a finished collection it plays
    nothing. More episodes, or another least reward, may be asked for later.

    Args:
        composed: The recipe.
        display: Shows how it goes.
        wish: What to collect.
        out: Folder that takes the games.

    Raises:
        ConfigError: The folder can't be used, or no game is left.
        TrlEnvError: A server doesn't start, a reward term fails, or too many episodes are lost.
        Interrupted: Ctrl-C or a signal.
    """
    if wish.seed is not None and wish.seed == composed.config.eval.seed:
        raise ConfigError(
            f"--seed {wish.seed} is eval.seed: the model would learn from the games that it is judged by",
            "take another one: --seed 1",
        )
    if wish.noise and wish.policy != "solver":
        raise ConfigError(f"--noise {wish.noise:g} is for --policy solver", "leave --noise out")
    collection = Collection(out)
    with collection.held(_made_from(composed.config, wish)):
        found = collection.gathered()
        if found is not None and (found.episodes, found.min_reward) == (wish.episodes, wish.min_reward):
            return found
        # Those that were lost in a collection that is finished aren't played again.
        if found is None or wish.episodes > found.episodes:
            collection.begin()
            _play(composed, display, wish, collection)
        return collection.finish(wish.episodes, wish.min_reward)


def _play(composed: Composed, display: CollectDisplay, wish: Wish, collection: Collection) -> None:
    sessions = composed.config.rollout.concurrency or (MODEL_SESSIONS if wish.policy == "model" else SESSIONS)
    with passing_run("collect") as run:
        benched = replace(composed, config=bench_config(composed.config, min(sessions, max(wish.episodes, 2))))
        plan = build_plan(benched.config, machine_facts(), run.path, composed.import_folders)
        write_down(run, benched, plan)
        command = ("-m", "trl_envs.evaluate.collect", str(run.path), "--out", str(collection.path.absolute()))
        asked = ["--policy", wish.policy, "--episodes", str(wish.episodes)]
        asked += ["--seed", str(wish.seed)] if wish.seed is not None else []
        asked += ["--noise", str(wish.noise)] if wish.noise else []
        asked += ["--thoughts"] if _reasons(composed.config, wish) else []
        spec = ProcessSpec("collect", (sys.executable, *command, *asked), plan.trainer.variables)
        with standing(run, plan, benched, display, play=False) as stage:
            raise_errors(Report(list(stage.refused)))
            child = stage.have(spec, lambda: display.collecting(collection))
        display.collecting(collection)
        outcome = read_outcome(run)
        error = outcome.exception() if outcome is not None else None
        if error is not None:
            raise error
        if outcome is None:
            raise ended_early("collecting", child)


def _reasons(config: TrainConfig, wish: Wish) -> bool:
    if wish.reasoning is not None:
        return wish.reasoning
    return (grpo_value(config.grpo, "chat_template_kwargs") or {}).get("enable_thinking") is not False


def _made_from(config: TrainConfig, wish: Wish) -> dict[str, Any]:
    """Whatever the games follow from, but their number."""
    made_from: dict[str, Any] = {
        "recipe": config.recipe,
        "policy": wish.policy,
        "seed": {name: env.seed if wish.seed is None else wish.seed for name, env in config.envs.items()},
        "reasoning": _reasons(config, wish),
        "noise": wish.noise,
        "chat_template_kwargs": grpo_value(config.grpo, "chat_template_kwargs") or {},
        "envs": {name: _of_environment(env) for name, env in config.envs.items()},
    }
    if wish.policy == "model":
        path = config.model.path
        made_from["model"] = path if path in SHIPPED else model_location(path)
        made_from["grpo"] = {name: grpo_value(config.grpo, name) for name in _OF_GRPO}
    return made_from


def _of_environment(env: EnvConfig) -> dict[str, Any]:
    return {name: getattr(env, name) for name in _OF_ENVIRONMENT}


def plan_sft(composed: Composed, data: Sequence[Path]) -> SftPlan:
    """The plan of a warm-up that doesn't exist yet.

    Args:
        composed: What was asked for.
        data: Folders of collected games.

    Raises:
        ConfigError: A folder holds no finished collection.
        PreflightError: It can't work on this machine, or with these games.
    """
    return _plan(composed, data, wanted_directory(composed, "sft"))


def sft(composed: Composed, display: SftDisplay, data: Sequence[Path]) -> RunRecord:
    """Has the config's model learn collected games by TRL's SFTTrainer, in a run directory of its own.

    Args:
        composed: What was asked for.
        display: Shows it.
        data: Folders of collected games.

    Returns:
        What came of it.

    Raises:
        ConfigError: A folder holds no finished collection.
        PreflightError: It can't work; nothing was started or written.
        ProcessExited: The trainer ended before the run did.
        TrainingFailed: Training broke off, or ended without a step.
        Interrupted: Ctrl-C or a signal.
    """
    wanted = wanted_directory(composed, "sft")
    _plan(composed, data, wanted)
    run = RunDirectory.create(wanted.parent, wanted.name)
    plan = _plan(composed, data, run.path)
    write_down(run, composed, plan)
    display.planned(plan, run)
    config, versions = composed.config, installed_versions(RECORDED_PACKAGES)
    record = RunRecord.begin(run, config.recipe, config.preset, versions, kind="sft")
    write_record(run, record)
    try:
        record.global_step = _learn(run, plan, display)
        record.model_dir = str(run.model_dir) if run.model_dir.is_dir() else None
        record.end("finished", 0)
    except TrlEnvError as error:
        status: RunStatus = "interrupted" if isinstance(error, Interrupted) else "failed"
        record.end(status, error.exit_code, error.message)
        raise
    except BaseException as error:
        record.end("failed", 1, f"{type(error).__name__}: {error}")
        raise
    finally:
        losses = [line for line in read_metrics(run.metrics_file) if "loss" in line]
        record.final_metrics = losses[-1] if losses else {}
        write_record(run, record)
    return record


def _learn(run: RunDirectory, plan: SftPlan, display: SftDisplay) -> int:
    """Trains; returns the number of steps."""
    with Supervisor(run.logs_dir) as supervisor:
        trainer = supervisor.start(plan.trainer)
        with display.training(run, plan) as tick:
            code = supervisor.watch(trainer, tick)
        outcome = read_outcome(run)
        error = outcome.exception() if outcome is not None else None
        if error is not None:
            raise error
        if code != 0 or outcome is None or outcome.global_step is None:
            raise ended_early("the trainer", trainer)
        return outcome.global_step


def _plan(composed: Composed, data: Sequence[Path], run_dir: Path) -> SftPlan:
    collections = [Collection(folder) for folder in data]
    facts, findings, games = machine_facts(), [], 0
    for collection in collections:
        gathered = collection.gathered()
        if gathered is None:
            raise ConfigError(
                f"the games in {collection.path} aren't all played yet",
                "give the trl-env collect command that began it once more: it goes on from there",
            )
        games += gathered.kept
        findings += check_games(composed.config, str(collection.path), collection.made_from())
    raise_errors(Report([*check_sft(composed.config, facts), *findings]))
    files = [collection.games_file for collection in collections]
    return build_sft_plan(composed.config, facts, run_dir, composed.import_folders, files, games)
