"""What can be done with a recipe's environments before anything is trained: serving, playing by hand, baselines."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from trl_envs.config.compose import Composed
from trl_envs.config.schema import LaunchConfig, LaunchMode, TrainConfig
from trl_envs.config.suggest import did_you_mean
from trl_envs.errors import ConfigError, ProcessExited
from trl_envs.launch import machine_facts, write_down
from trl_envs.plan.batch import build_batch
from trl_envs.plan.build import build_plan, build_servers
from trl_envs.plan.launch_plan import LaunchPlan
from trl_envs.plan.spec import ProcessSpec
from trl_envs.preflight.findings import Report, raise_errors
from trl_envs.results.baseline import Baseline, read_baseline
from trl_envs.results.outcome import Outcome
from trl_envs.results.rundir import RunDirectory, passing_run
from trl_envs.runtime.supervisor import Supervisor
from trl_envs.runtime.terminal import restored_terminal
from trl_envs.stage import ended_early, standing
from trl_envs.stage.display import Display

# Episodes of a baseline at once, unless rollout.concurrency says otherwise.
SESSIONS = 16


class BaselineDisplay(Display, Protocol):
    """What a baseline shows as it goes; it decides nothing."""

    def playing(self, run: RunDirectory) -> None:
        """Called a few times a second while the children play."""


def serve(composed: Composed, sessions: int | None, on_ready: Callable[[str, str, str], None]) -> None:
    """Keeps a recipe's embedded servers running, until a signal comes or one of them ends.

    Args:
        composed: What was asked for.
        sessions: Sessions of each server; None takes what the recipe's run needs.
        on_ready: Told of each server's environment, URL and limit of sessions.

    Raises:
        PreflightError: An environment has no embedded server, or its port is taken.
        StartupError: A server didn't start.
        ProcessExited: A server ended.
        Interrupted: Ctrl-C or a signal.
    """
    wanted = sessions or build_batch(composed.config).sessions
    specs = build_servers(composed.config, machine_facts(), wanted, composed.import_folders)
    with passing_run("serve") as run, Supervisor(run.logs_dir) as supervisor:
        children = {name: supervisor.start(spec) for name, spec in specs.items()}
        for name, child in children.items():
            supervisor.wait_ready(child)
            on_ready(name, f"http://{child.spec.host}:{child.spec.port}", child.spec.variables["MAX_CONCURRENT_ENVS"])
        first = next(iter(children.values()))
        supervisor.watch(first)
        raise ProcessExited(
            f"{first.name} ended: {first.describe_exit()}\n{first.describe_log()}", first.spec.command()
        )


def play(composed: Composed, display: Display, env: str | None, policy: str | None, seed: int | None) -> int:
    """Plays one episode at the terminal.

    Args:
        composed: The recipe.
        display: Shows how the server starts.
        env: Name of the environment; may be left out where there is one.
        policy: `random` or `solver`; None lets a person play.
        seed: Of the episode; None draws one.

    Returns:
        The child's exit code: 130 at the end of the input, an error's that it has printed, else 0.

    Raises:
        ConfigError: It isn't said which environment.
        TrlEnvError: The server doesn't start, or ended.
        Interrupted: Ctrl-C or a signal.
    """
    name = _chosen(composed.config, env)
    config = replace(composed.config, envs={name: composed.config.envs[name]})
    with passing_run("play") as run:
        rehearsed = replace(composed, config=bench_config(config, 1))
        plan = _planned(run, rehearsed)
        drawn = random.randrange(2**31) if seed is None else seed
        command = ("-m", "trl_envs.evaluate.play", str(run.path), "--env", name, "--seed", str(drawn))
        asked = ("--policy", policy) if policy else ()
        spec = ProcessSpec("play", (sys.executable, *command, *asked), plan.trainer.variables, at_terminal=True)
        with restored_terminal(), standing(run, plan, rehearsed, display, play=False) as stage:
            raise_errors(Report(list(stage.refused)))
            return stage.have(spec).wait()


def baseline(composed: Composed, display: BaselineDisplay, episodes: int, *, with_model: bool) -> Baseline:
    """Plays a recipe's environments by scripts and, if asked, by its model, and lints the reward.

    Args:
        composed: The recipe.
        display: Shows how it goes.
        episodes: Of each player and environment.
        with_model: Whether the config's model plays too.

    Raises:
        TrlEnvError: A server doesn't start, a reward term fails, or too many episodes are lost.
        Interrupted: Ctrl-C or a signal.
    """
    with passing_run("baseline") as run:
        sessions = composed.config.rollout.concurrency or SESSIONS
        rehearsed = replace(composed, config=bench_config(composed.config, min(sessions, max(episodes, 2))))
        plan = _planned(run, rehearsed)
        command = ("-m", "trl_envs.evaluate.baseline", str(run.path), "--episodes", str(episodes))
        asked = ("--model",) if with_model else ()
        spec = ProcessSpec("baseline", (sys.executable, *command, *asked), plan.trainer.variables)
        with standing(run, plan, rehearsed, display, play=False) as stage:
            raise_errors(Report(list(stage.refused)))
            child = stage.have(spec, lambda: display.playing(run))
        found = read_baseline(run)
        error = found.exception() if isinstance(found, Outcome) else None
        if error is not None:
            raise error
        if not isinstance(found, Baseline):
            raise ended_early("the baseline", child)
        return found


def bench_config(config: TrainConfig, sessions: int) -> TrainConfig:
    """The config for playing alone: as many sessions as that takes, and nothing that only training is about.

    Args:
        config: The recipe's.
        sessions: Sessions at once.
    """
    # A batch of one group; what it is compared in has no say here.
    size = max(sessions, 2)
    sizes = {
        "num_generations": size,
        "per_device_train_batch_size": size,
        "gradient_accumulation_steps": 1,
        "steps_per_generation": None,
        "generation_batch_size": None,
        "eval_strategy": "no",
        "per_device_eval_batch_size": None,
    }
    grpo = {key: value for key, value in {**config.grpo, **sizes}.items() if value is not None}
    return replace(config, grpo=grpo, mix=None, launch=LaunchConfig(mode=LaunchMode.single))


def _planned(run: RunDirectory, composed: Composed) -> LaunchPlan:
    plan = build_plan(composed.config, machine_facts(), run.path, composed.import_folders)
    write_down(run, composed, plan)
    return plan


def _chosen(config: TrainConfig, env: str | None) -> str:
    names = list(config.envs)
    if env is None and len(names) == 1:
        return names[0]
    if env is None:
        raise ConfigError(f"the recipe has {len(names)} environments: {', '.join(names)}", f"choose: --env {names[0]}")
    if env not in names:
        raise ConfigError(f"--env {env}: the recipe has no such environment", did_you_mean(env, names))
    return env
