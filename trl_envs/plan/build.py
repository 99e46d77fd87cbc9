"""From a config and the machine to a launch plan. Pure: it starts nothing and touches no file."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from trl_envs.config.schema import LaunchMode, TrainConfig
from trl_envs.plan.batch import batch_problems, build_batch
from trl_envs.plan.engine import build_engine, engine_problems
from trl_envs.plan.environments import local_server, plan_environment
from trl_envs.plan.facts import MachineFacts
from trl_envs.plan.generation import derived_fields, precision_problems
from trl_envs.plan.gpus import GpuSplit, split_gpus, trainer_visibility, visibility
from trl_envs.plan.launch_plan import LaunchPlan
from trl_envs.plan.mix import groups_of
from trl_envs.plan.mode import device_of, launch_mode, mode_problems
from trl_envs.plan.problem import Problem, refuse
from trl_envs.plan.servers import embedded_problems, port_problems, server_problems
from trl_envs.plan.spec import ProcessSpec
from trl_envs.plan.tokens import length_problems
from trl_envs.plan.trainer import build_trainer, trainer_problems

# On a CPU torch's threads spin while they wait for each other. On cores that something else needs too (the
# environment's server, a second run) that cost a factor of ten and more; passive waiting gives the core away.
_CPU_VARIABLES = {"OMP_WAIT_POLICY": "PASSIVE"}
# Without a network the trainer's telemetry would wait for its time-outs; it is the user's to turn on.
_TRAINER_VARIABLES = {
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "PYTHONUNBUFFERED": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TRL_EXPERIMENTAL_SILENCE": "1",
}
# Trainer and vLLM server meet at the address that vLLM finds for this machine (get_ip in its utils/network_utils.py),
# which would be an outward one, and none at all without a network.
_SERVED_VARIABLES = {"VLLM_HOST_IP": "127.0.0.1"}


def build_plan(config: TrainConfig, facts: MachineFacts, run_dir: Path, import_folders: Sequence[str]) -> LaunchPlan:
    """Plans a run.

    Args:
        config: What was asked for.
        facts: What the machine has.
        run_dir: Directory of the run, which need not exist yet.
        import_folders: Folders to put on PYTHONPATH of all processes.

    Raises:
        PreflightError: The config asks for what can't work here; all of it.
    """
    refuse(plan_problems(config, facts))
    batch = build_batch(config)
    mode, reason = launch_mode(config, facts)
    split = split_gpus(config.launch, facts, mode)
    engine = build_engine(config, facts, split) if mode is LaunchMode.server else None
    path = python_path(import_folders, facts.variables)
    environments = {name: plan_environment(name, config, batch.sessions, facts, path) for name in config.envs}
    served = _SERVED_VARIABLES if engine is not None else {}
    variables = {**trainer_variables(facts, split, served), **path}
    # With several machines the first one has the model that training leaves.
    evaluated = config.eval.episodes and config.launch.machine_rank == 0
    return LaunchPlan(
        mode=mode.name,
        reason=reason,
        device=device_of(facts),
        batch=batch,
        environments=environments,
        trainer=build_trainer(config, facts, run_dir, variables),
        import_folders=tuple(import_folders),
        mix=groups_of(config.mix, batch.groups) if config.mix else None,
        evaluations=_evaluations(run_dir, variables | _one_gpu(split)) if evaluated else {},
        grpo=derived_fields(config, facts, mode, batch, split, engine),
        engine=engine,
        report_to=reporters_of(config, facts),
        project=config.logging.project,
    )


def reporters_of(config: TrainConfig, facts: MachineFacts) -> tuple[str, ...]:
    """Where a run's metrics go beside its directory: what the config says, else Trackio where it is installed."""
    if config.logging.report_to is not None:
        return tuple(config.logging.report_to)
    return ("trackio",) if facts.versions.get("trackio") else ()


def trainer_variables(facts: MachineFacts, split: GpuSplit, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Environment variables of a training process; what the shell sets stays.

    Args:
        facts: What the machine has.
        split: Says which GPUs the process sees.
        more: Further variables.
    """
    wanted = {**_TRAINER_VARIABLES, **(_CPU_VARIABLES if device_of(facts) == "cpu" else {}), **(more or {})}
    free = {name: value for name, value in wanted.items() if name not in facts.variables}
    return {**trainer_visibility(split, facts), **free}


def _evaluations(run_dir: Path, variables: Mapping[str, str]) -> dict[str, ProcessSpec]:
    """The config's model before training, and the one that training leaves."""
    command = (sys.executable, "-m", "trl_envs.evaluate.worker", str(run_dir), "--name")
    trained = ("--model", str(run_dir / "model"))
    return {
        "before": ProcessSpec("eval-before", (*command, "before"), variables),
        "after": ProcessSpec("eval-after", (*command, "after", *trained), variables),
    }


def plan_problems(config: TrainConfig, facts: MachineFacts) -> list[Problem]:
    """Whatever keeps the config from being launched on this machine."""
    mode, _ = launch_mode(config, facts)
    problems = [*batch_problems(config), *trainer_problems(config, facts, mode), *mode_problems(config, facts)]
    problems += precision_problems(config, facts)
    if mode is LaunchMode.server:
        settings = facts.model_settings(facts.served_model(config.model.path))
        problems += [*engine_problems(config), *length_problems(config, mode, settings)]
    return [*problems, *server_problems(config, facts)]


def build_servers(
    config: TrainConfig, facts: MachineFacts, sessions: int, import_folders: Sequence[str]
) -> dict[str, ProcessSpec]:
    """The embedded servers alone, by environment, each for so many sessions.

    Raises:
        PreflightError: An environment has none, or its port can't be had.
    """
    names = list(config.envs)
    refuse([*embedded_problems(config, names), *port_problems(config, facts, len(names))])
    path = python_path(import_folders, facts.variables)
    return {name: local_server(name, env, config, sessions, facts, path) for name, env in config.envs.items()}


def _one_gpu(split: GpuSplit) -> dict[str, str]:
    """For a process that takes one GPU where the trainer has several."""
    return visibility(split.trainer[:1]) if len(split.trainer) > 1 else {}


def python_path(folders: Sequence[str], variables: Mapping[str, str]) -> dict[str, str]:
    """PYTHONPATH with these folders in front, as far as it lacks them; empty if it lacks none."""
    known = [part for part in variables.get("PYTHONPATH", "").split(os.pathsep) if part]
    new = [folder for folder in folders if folder not in known]
    return {"PYTHONPATH": os.pathsep.join([*new, *known])} if new else {}
