"""Rules over everything but `grpo`: sessions, model, run directory, versions."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

from trl_envs.config.frozen import flat_values
from trl_envs.config.model_location import TINY_RANDOM
from trl_envs.config.schema import JobConfig, RolloutConfig, TrainConfig
from trl_envs.config.suggest import nearest
from trl_envs.plan.facts import MachineFacts
from trl_envs.plan.problem import Problem
from trl_envs.preflight.installed_source import reporters
from trl_envs.preflight.versions import version_problems

LARGEST_SEED = 2**32 - 1
DTYPES = ("float32", "bfloat16", "float16")


def run_problems(config: TrainConfig, facts: MachineFacts, mode: str) -> list[Problem]:
    """What is wrong with the values outside `grpo`, servers and batch aside (plan/).

    Args:
        config: What was asked for.
        facts: What the machine has.
        mode: How the model will generate: single, colocate or server.
    """
    return [
        *_rollout_problems(config.rollout),
        *_model_problems(config),
        *_other_problems(config),
        *_logging_problems(config, facts),
        *_job_problems(config),
        *_directory_problems(config),
        *_name_problems(config),
        *_seed_problems(config),
        *version_problems(facts, mode),
    ]


def _rollout_problems(rollout: RolloutConfig) -> Iterator[Problem]:
    for name in ("connect_timeout_s", "call_timeout_s", "ping_interval_s", "ping_timeout_s"):
        value, default = getattr(rollout, name), getattr(RolloutConfig, name)
        if value is not None and not value > 0:
            message = f"rollout.{name}={value:g}: a time limit is a number of seconds above 0"
            yield Problem(f"rollout.{name}", message, f"set rollout.{name}={default:g}")
    if not rollout.capacity_wait_s >= 0:
        message = f"rollout.capacity_wait_s={rollout.capacity_wait_s:g} is less than no wait at all"
        yield Problem("rollout.capacity_wait_s", message, "set rollout.capacity_wait_s=60, or 0 for no second try")
    if rollout.concurrency is not None and rollout.concurrency < 1:
        message = f"rollout.concurrency={rollout.concurrency} plays nothing"
        hint = (
            "set rollout.concurrency=null for all rollouts of a batch at once, or rollout.concurrency=1 for TRL's order"
        )
        yield Problem("rollout.concurrency", message, hint)
    if not 0 <= rollout.max_lost_fraction <= 1:
        message = f"rollout.max_lost_fraction={rollout.max_lost_fraction:g} is no share from 0 to 1"
        yield Problem("rollout.max_lost_fraction", message, "set rollout.max_lost_fraction=0.25")


def _model_problems(config: TrainConfig) -> Iterator[Problem]:
    model = config.model
    if model.dtype is not None and model.dtype not in DTYPES:
        message = f"model.dtype={model.dtype!r} is none of {', '.join(DTYPES)}"
        yield Problem("model.dtype", message, f"did you mean model.dtype={nearest(model.dtype, DTYPES)}?")
    if model.lora is not None and model.path == TINY_RANDOM:
        message = "model.lora on model=tiny-random: an adapter is saved without the weights that it was trained on"
        yield Problem("model.lora", message, "set model.lora=null")
    if model.lora is not None:
        for name in ("rank", "alpha"):
            if getattr(model.lora, name) < 1:
                message = f"model.lora.{name}={getattr(model.lora, name)}: the adapter would be nothing"
                yield Problem(f"model.lora.{name}", message, f"set model.lora.{name}=16, or model.lora=null")


def _other_problems(config: TrainConfig) -> Iterator[Problem]:
    for key, value in (
        ("server.ready_timeout_s", config.server.ready_timeout_s),
        ("server.space_timeout_s", config.server.space_timeout_s),
        ("server.heartbeat_timeout_s", config.server.heartbeat_timeout_s),
        ("launch.ready_timeout_s", config.launch.ready_timeout_s),
        ("launch.heartbeat_timeout_s", config.launch.heartbeat_timeout_s),
    ):
        if not value > 0:
            yield Problem(key, f"{key}={value:g}: nothing answers within that", f"set {key}=60")
    if config.eval.episodes < 0:
        message = f"eval.episodes={config.eval.episodes} is no number of episodes"
        yield Problem("eval.episodes", message, "set eval.episodes=200, or 0 for no evaluation")
    if config.eval.temperature is not None and not config.eval.temperature > 0:
        message = f"eval.temperature={config.eval.temperature:g}: sampling needs a temperature above 0"
        yield Problem("eval.temperature", message, "set eval.temperature=null for the training temperature")
    if config.watch.patience_steps < 1:
        message = f"watch.patience_steps={config.watch.patience_steps}: a sign must last for a step at least"
        yield Problem("watch.patience_steps", message, "set watch.patience_steps=5")
    if not config.server.heartbeat_timeout_s > 0:
        message = f"server.heartbeat_timeout_s={config.server.heartbeat_timeout_s:g}: every server would count as hung"
        yield Problem("server.heartbeat_timeout_s", message, "set server.heartbeat_timeout_s=30")
    for name, share in (config.mix or {}).items():
        if not share >= 0:
            yield Problem(f"mix.{name}", f"mix.{name}={share:g} is no share", f"set mix.{name}=1, or mix=null")


def _logging_problems(config: TrainConfig, facts: MachineFacts) -> Iterator[Problem]:
    known = reporters()
    for name in config.logging.report_to or ():
        if known and name not in (*known, "all", "none"):
            message = f"logging.report_to: {name!r} is none of {', '.join(known)}"
            hint = f"did you mean 'logging.report_to=[{nearest(name, known)}]'?"
            yield Problem("logging.report_to", message, hint)
    if "trackio" in (config.logging.report_to or ()) and facts.versions.get("trackio", "unchecked") is None:
        message = "logging.report_to: trackio isn't installed"
        yield Problem(
            "logging.report_to", message, "pip install 'trl-env[trackio]', or leave it out: logging.report_to=[]"
        )


def _job_problems(config: TrainConfig) -> Iterator[Problem]:
    if config.job != JobConfig():
        message = "job and its keys say where a run is submitted to, and this command makes it here"
        yield Problem("job", message, "trl-env submit recipe=NAME job=hf_jobs ..., or leave the keys of job out")


def _name_problems(config: TrainConfig) -> Iterator[Problem]:
    name = config.run_name
    if name is not None and (name in ("", ".", "..") or "/" in name or "\0" in name):
        message = f"run_name={name!r} is no name of a folder in output_dir={config.output_dir}"
        yield Problem("run_name", message, "set run_name=first, and output_dir=FOLDER for where; null makes up a name")


def _seed_problems(config: TrainConfig) -> Iterator[Problem]:
    seeds = {"seed": config.seed, "eval.seed": config.eval.seed}
    seeds |= {f"envs.{name}.seed": env.seed for name, env in config.envs.items()}
    for key, seed in seeds.items():
        if not 0 <= seed <= LARGEST_SEED:
            yield Problem(key, f"{key}={seed}: a seed is a number from 0 to {LARGEST_SEED}", f"set {key}=0")


def number_problems(config: TrainConfig) -> Iterator[Problem]:
    """What is no number to compute with, wherever it stands; only TRL's fields may be infinite."""
    for key, value in flat_values(config).items():
        infinite = key.startswith(("grpo.", "sft.")) and isinstance(value, float) and math.isinf(value)
        if isinstance(value, float) and not math.isfinite(value) and not infinite:
            yield Problem(key, f"{key}={value} is no number to compute with", f"set {key} to a finite number")


def _directory_problems(config: TrainConfig) -> Iterator[Problem]:
    """Looks where the run directory would come to lie, and makes nothing."""
    wanted = Path(config.output_dir).expanduser().absolute()
    nearest_there = next(folder for folder in (wanted, *wanted.parents) if folder.exists())
    if not nearest_there.is_dir():
        reason = f"{nearest_there} is a file"
    elif not os.access(nearest_there, os.W_OK | os.X_OK):
        reason = f"this user may not write into {nearest_there}"
    else:
        return
    message = f"output_dir={config.output_dir}: no run directory can be made there, {reason}"
    yield Problem("output_dir", message, "set output_dir=FOLDER to one that can be written")
