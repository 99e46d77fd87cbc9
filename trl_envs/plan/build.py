"""From a config and the machine to a launch plan. Pure: it starts nothing and touches no file."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from trl_envs.config.schema import LaunchMode, TrainConfig
from trl_envs.plan.batch import batch_problems, build_batch
from trl_envs.plan.environments import local_server, plan_environment
from trl_envs.plan.facts import MachineFacts
from trl_envs.plan.launch_plan import LaunchPlan
from trl_envs.plan.mix import groups_of
from trl_envs.plan.problem import Problem, refuse
from trl_envs.plan.servers import embedded_problems, port_problems, server_problems
from trl_envs.plan.spec import ProcessSpec

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
    path = _python_path(import_folders, facts.variables)
    environments = {name: plan_environment(name, config, batch.sessions, facts, path) for name in config.envs}
    wanted = {**_TRAINER_VARIABLES, **(_CPU_VARIABLES if device_of(facts) == "cpu" else {})}
    variables = {**{k: v for k, v in wanted.items() if k not in facts.variables}, **path}
    trainer = _trainer(config, run_dir, variables)
    evaluations = _evaluations(run_dir, variables) if config.eval.episodes else {}
    return LaunchPlan(
        mode=mode.name,
        reason=reason,
        device=device_of(facts),
        batch=batch,
        environments=environments,
        trainer=trainer,
        import_folders=tuple(import_folders),
        mix=groups_of(config.mix, batch.groups) if config.mix else None,
        evaluations=evaluations,
    )


def device_of(facts: MachineFacts) -> str:
    """Where the model will be trained: cuda, mps or cpu."""
    return "cuda" if facts.gpus else "mps" if facts.mps else "cpu"


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
    return [*batch_problems(config), *_launch_problems(config, facts), *server_problems(config, facts)]


def build_servers(
    config: TrainConfig, facts: MachineFacts, sessions: int, import_folders: Sequence[str]
) -> dict[str, ProcessSpec]:
    """The embedded servers alone, by environment, each for so many sessions.

    Raises:
        PreflightError: An environment has none, or its port can't be had.
    """
    names = list(config.envs)
    refuse([*embedded_problems(config, names), *port_problems(config, facts, len(names))])
    path = _python_path(import_folders, facts.variables)
    return {name: local_server(name, env, config, sessions, facts, path) for name, env in config.envs.items()}


def launch_mode(config: TrainConfig, facts: MachineFacts) -> tuple[LaunchMode, str]:
    """How the model will generate, and why so."""
    if config.launch.mode is not LaunchMode.auto:
        return config.launch.mode, "asked for"
    if not facts.gpus:
        return LaunchMode.single, "no GPU is visible: the model generates with transformers"
    if facts.vllm is None:
        return LaunchMode.single, "vLLM isn't installed: the model generates with transformers"
    return LaunchMode.colocate, f"GPU {facts.gpus[0].name} and vLLM {facts.vllm}: vLLM inside the trainer"


def _launch_problems(config: TrainConfig, facts: MachineFacts) -> list[Problem]:
    problems = list(_process_problems(config.launch.processes, facts))
    if config.launch.mode is LaunchMode.server:
        problems.append(
            Problem(
                "launch.mode",
                "launch=server (a vLLM server beside the trainer) isn't in this version",
                "use launch=colocate on a GPU, or launch=single",
            )
        )
    if config.launch.mode is LaunchMode.colocate and not facts.gpus:
        message = "launch=colocate generates with vLLM, and no GPU is visible"
        problems.append(Problem("launch.mode", message, "use launch=single"))
    elif config.launch.mode is LaunchMode.colocate and facts.vllm is None:
        message = "launch=colocate needs vLLM, which isn't installed"
        problems.append(Problem("launch.mode", message, "pip install 'trl-env[vllm]', or use launch=single"))
    return problems


def _process_problems(processes: int, facts: MachineFacts) -> Iterator[Problem]:
    key = "launch.processes"
    if processes < 1:
        yield Problem(key, f"{key}={processes}: somebody has to train", f"set {key}=1")
    elif processes > 1 and facts.mps:
        yield Problem(key, f"{key}={processes}: this machine has one Metal device", f"set {key}=1")
    elif facts.gpus and processes > len(facts.gpus):
        message = f"{key}={processes}, and {len(facts.gpus)} GPU(s) are visible: each process needs its own"
        yield Problem(key, message, f"set {key}={len(facts.gpus)}")


def _trainer(config: TrainConfig, run_dir: Path, variables: Mapping[str, str]) -> ProcessSpec:
    """The training worker; several of them are started by torch's own launcher, which also works on a CPU."""
    worker = ("-m", "trl_envs.training.worker", str(run_dir))
    if config.launch.processes == 1:
        return ProcessSpec("trainer", (sys.executable, *worker), variables)
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(config.launch.processes))
    # What the launcher would set itself, with a warning: by default each process takes all cores.
    return ProcessSpec("trainer", (sys.executable, *launcher, *worker), {"OMP_NUM_THREADS": "1", **variables})


def _python_path(folders: Sequence[str], variables: Mapping[str, str]) -> dict[str, str]:
    known = [part for part in variables.get("PYTHONPATH", "").split(os.pathsep) if part]
    new = [folder for folder in folders if folder not in known]
    return {"PYTHONPATH": os.pathsep.join([*new, *known])} if new else {}
