"""The training processes: one worker, or several under a launcher, on one machine or more."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from trl_envs.config.grpo_fields import grpo_value
from trl_envs.config.schema import LaunchMode, TrainConfig
from trl_envs.plan.facts import MachineFacts
from trl_envs.plan.generation import mixed_precision
from trl_envs.plan.problem import Problem
from trl_envs.plan.spec import ProcessSpec

# By the name in launch.accelerate: files that TRL ships, all made for 8 processes on one machine.
ACCELERATE_NAMES = ("multi_gpu", "zero2", "zero3", "fsdp2")
# Those that cut the weights themselves into pieces.
SHARDED = ("zero3", "fsdp2")


GRPO_WORKER = "trl_envs.training.worker"


def build_trainer(
    config: TrainConfig, facts: MachineFacts, run_dir: Path, variables: Mapping[str, str], module: str = GRPO_WORKER
) -> ProcessSpec:
    """The training worker, alone or under a launcher.

    Several processes on GPUs are started by accelerate. On CPUs they are started by torch: `accelerate launch --cpu`
    silently starts one (accelerate 1.15).

    Args:
        config: What was asked for.
        facts: What the machine has.
        run_dir: Directory of the run.
        variables: Environment variables of every training process.
        module: What trains.
    """
    launch = config.launch
    worker = ("-m", module, str(run_dir))
    if launch.processes == 1 and launch.accelerate is None:
        return ProcessSpec("trainer", (sys.executable, *worker), variables)
    # What a launcher would set itself, with a warning: by default each process takes all cores.
    variables = {"OMP_NUM_THREADS": "1", **variables}
    if not facts.gpus:
        launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(launch.processes))
        return ProcessSpec("trainer", (sys.executable, *launcher, *worker), variables)
    return ProcessSpec("trainer", (sys.executable, *_accelerate(config, facts), *worker), variables)


def _accelerate(config: TrainConfig, facts: MachineFacts) -> Iterator[str]:
    launch = config.launch
    port = launch.main_process_port if launch.machines > 1 else facts.free_port("127.0.0.1")
    yield from ("-m", "accelerate.commands.launch", "--config_file", accelerate_file(config, facts))
    yield from ("--num_processes", str(launch.processes), "--num_machines", str(launch.machines))
    yield from ("--machine_rank", str(launch.machine_rank))
    if launch.main_process_ip is not None:
        yield from ("--main_process_ip", launch.main_process_ip)
    yield from ("--main_process_port", str(port), "--mixed_precision", mixed_precision(config, facts))


def accelerate_file(config: TrainConfig, facts: MachineFacts) -> str:
    """The accelerate config file: TRL's own of that name, or the file that was named."""
    name = config.launch.accelerate or "multi_gpu"
    folder = facts.accelerate_configs
    if name in ACCELERATE_NAMES and folder is not None:
        return str(folder / f"{name}.yaml")
    return str(Path(name).expanduser().absolute())


def trainer_problems(config: TrainConfig, facts: MachineFacts, mode: LaunchMode) -> list[Problem]:
    """What keeps the training processes from being started, or from ever coming to an end."""
    launch, key = config.launch, "launch.processes"
    if launch.processes < 1:
        return [Problem(key, f"{key}={launch.processes}: somebody has to train", f"set {key}=1")]
    if launch.processes > 1 and facts.mps and not facts.gpus:
        return [Problem(key, f"{key}={launch.processes}: this machine has one Metal device", f"set {key}=1")]
    return [
        *_accelerate_problems(config, facts),
        *_machine_problems(config, facts, mode),
        *_hang_problems(config, mode),
    ]


def _accelerate_problems(config: TrainConfig, facts: MachineFacts) -> Iterator[Problem]:
    launch, key = config.launch, "launch.accelerate"
    name = launch.accelerate
    if name is None:
        return
    if not facts.gpus:
        message = f"{key}={name} is for GPUs, and none is visible: on CPUs torch starts the processes by itself"
        yield Problem(key, message, f"set {key}=null")
    elif name not in ACCELERATE_NAMES and not Path(name).expanduser().is_file():
        message = f"{key}={name} is no file, and none of {', '.join(ACCELERATE_NAMES)}"
        yield Problem(key, message, f"set {key}=multi_gpu")
    elif name == "multi_gpu" and launch.processes == 1:
        message = f"{key}=multi_gpu with launch.processes=1: there is nothing to share out"
        yield Problem(key, message, f"set launch.processes={max(2, len(facts.gpus))}, or {key}=null")
    elif name in ("zero2", "zero3") and facts.versions.get("deepspeed", "") is None:
        message = f"{key}={name} needs DeepSpeed, which isn't installed"
        yield Problem(key, message, "pip install 'deepspeed>=0.18.6', or use launch.accelerate=fsdp2")


def _machine_problems(config: TrainConfig, facts: MachineFacts, mode: LaunchMode) -> Iterator[Problem]:
    launch = config.launch
    if launch.machines < 1:
        yield Problem("launch.machines", f"launch.machines={launch.machines} is none", "set launch.machines=1")
        return
    if launch.machines == 1:
        for name in ("machine_rank", "main_process_ip", "main_process_port"):
            if getattr(launch, name) not in (None, 0):
                message = f"launch.{name} is for several machines, and launch.machines=1"
                yield Problem(f"launch.{name}", message, f"leave launch.{name} out, or set launch.machines=2")
        return
    if launch.processes % launch.machines:
        message = f"launch.processes={launch.processes} can't be shared out evenly by launch.machines={launch.machines}"
        yield Problem("launch.processes", message, f"set launch.processes to a multiple of {launch.machines}")
    if not 0 <= launch.machine_rank < launch.machines:
        message = f"launch.machine_rank={launch.machine_rank} is none of 0 to {launch.machines - 1}"
        yield Problem("launch.machine_rank", message, "set launch.machine_rank=0 on the first machine, 1 on the next")
    for name, example in (("main_process_ip", "10.0.0.1"), ("main_process_port", "29500")):
        if getattr(launch, name) is None:
            message = f"launch.machines={launch.machines}, and launch.{name} isn't set: the machines can't meet"
            yield Problem(f"launch.{name}", message, f"set launch.{name}={example}, the same on every machine")
    if not facts.gpus:
        yield Problem("launch.machines", "launch.machines needs GPUs, and none is visible", "set launch.machines=1")
    if mode is LaunchMode.server:
        message = "launch=server listens on this machine alone, and launch.machines names several"
        yield Problem("launch.machines", message, "use launch=colocate, or launch.machines=1")


def _hang_problems(config: TrainConfig, mode: LaunchMode) -> Iterator[Problem]:
    """Several processes that wait for each other in every turn, while their episodes take different numbers of turns.

    TRL's tool loop runs in each process until that process's own episodes are over (GRPOTrainer._tool_call_loop, 1.16).
    Whatever is done together inside it hangs as soon as one process is through.
    """
    launch, grpo = config.launch, config.grpo
    if grpo_value(grpo, "ds3_gather_for_generation") is False and launch.accelerate == "zero3":
        message = "grpo.ds3_gather_for_generation=false: under ZeRO-3 TRL then generates from weights in pieces"
        yield Problem("grpo.ds3_gather_for_generation", message, "set grpo.ds3_gather_for_generation=true")
    if launch.processes == 1:
        return
    turns = "and wait for each other for ever once their episodes take different numbers of turns"
    if mode is LaunchMode.single and launch.accelerate in SHARDED:
        message = f"launch.accelerate={launch.accelerate} with launch=single: the processes gather weights in every "
        yield Problem("launch.accelerate", f"{message}turn, {turns}", "use launch=colocate, or launch.accelerate=zero2")
    if mode is not LaunchMode.colocate:
        return
    if (grpo_value(grpo, "vllm_tensor_parallel_size") or 1) > 1:
        message = "grpo.vllm_tensor_parallel_size above 1 in the trainer: its processes generate together in every turn"
        yield Problem("grpo.vllm_tensor_parallel_size", f"{message}, {turns}", "set grpo.vllm_tensor_parallel_size=1")
    if grpo_value(grpo, "vllm_enable_sleep_mode") is True and launch.accelerate in SHARDED:
        message = (
            f"grpo.vllm_enable_sleep_mode with launch.accelerate={launch.accelerate}: a vLLM that wakes up gets its "
        )
        hint = "set grpo.vllm_enable_sleep_mode=false, or launch.accelerate=zero2"
        yield Problem(
            "grpo.vllm_enable_sleep_mode", f"{message}weights from all processes in every turn, {turns}", hint
        )
