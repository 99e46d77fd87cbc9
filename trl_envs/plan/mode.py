"""How the model generates: with transformers, with vLLM in the trainer, or with a vLLM server beside it."""

from __future__ import annotations

from collections.abc import Iterator

from trl_envs.config.schema import LaunchConfig, LaunchMode, TrainConfig
from trl_envs.plan.facts import MachineFacts
from trl_envs.plan.gpus import gpu_problems, named, split_gpus
from trl_envs.plan.problem import Problem

INSTALL_VLLM = "pip install 'trl-env[vllm]'"
# vLLM's wheels are built for GPUs from Turing on (its docker/Dockerfile, torch_cuda_arch_list).
VLLM_CAPABILITY = 7.5
# Ampere is the first that computes in bfloat16.
BF16_CAPABILITY = 8.0
# Keys that only a vLLM server reads, with what they are when nobody sets them.
_SERVER_KEYS = ("vllm_gpus", "vllm_tensor_parallel", "vllm_executable", "vllm_args")


def device_of(facts: MachineFacts) -> str:
    """Where the model will be trained: cuda, mps or cpu."""
    return "cuda" if facts.gpus else "mps" if facts.mps else "cpu"


def has_bf16(facts: MachineFacts) -> bool:
    """Whether every visible GPU computes in bfloat16; one that doesn't tell is taken for a new one."""
    return bool(facts.gpus) and all(
        (gpu.compute_capability or BF16_CAPABILITY) >= BF16_CAPABILITY for gpu in facts.gpus
    )


def launch_mode(config: TrainConfig, facts: MachineFacts) -> tuple[LaunchMode, str]:
    """How the model will generate, and why so."""
    launch = config.launch
    mode, reason = (launch.mode, "asked for") if launch.mode is not LaunchMode.auto else _chosen(launch, facts)
    if mode is LaunchMode.server and not gpu_problems(launch, facts, mode):
        split = split_gpus(launch, facts, mode)
        reason = f"{reason}: {split.describe()}" if split.engine else reason
    return mode, f"{reason}{_precision(facts)}"


def _chosen(launch: LaunchConfig, facts: MachineFacts) -> tuple[LaunchMode, str]:
    if not facts.gpus:
        where = "Apple's GPU (mps)" if facts.mps else "no GPU is visible"
        return LaunchMode.single, f"{where}: the model generates with transformers"
    first = facts.gpus[0]
    if facts.vllm is None:
        return LaunchMode.single, f"vLLM isn't installed ({INSTALL_VLLM}): the model generates with transformers"
    if any((gpu.compute_capability or VLLM_CAPABILITY) < VLLM_CAPABILITY for gpu in facts.gpus):
        why = f"vLLM needs compute capability {VLLM_CAPABILITY}, and a {first.name} has {first.compute_capability}"
        return LaunchMode.single, f"{why}: the model generates with transformers"
    if launch.vllm_gpus is not None:
        return LaunchMode.server, f"vLLM {facts.vllm} on GPUs of its own, as launch.vllm_gpus says"
    if launch.processes > 1:
        return LaunchMode.colocate, f"several training processes, each with a vLLM {facts.vllm} of its own inside"
    if launch.gpus is not None:
        return LaunchMode.colocate, f"{named(facts.gpus)} visible, and launch.gpus leaves the others alone"
    if len(facts.gpus) == 1:
        return LaunchMode.colocate, f"one GPU ({first.name}): vLLM {facts.vllm} inside the trainer"
    return LaunchMode.server, f"{len(facts.gpus)} GPUs ({first.name}) and vLLM {facts.vllm}"


def _precision(facts: MachineFacts) -> str:
    """What is worth saying of the number format: that it isn't the bfloat16 of a GPU."""
    if facts.gpus and not has_bf16(facts):
        return "; a GPU before Ampere has no bfloat16: mixed float16"
    return "; in float32" if facts.mps and not facts.gpus else ""


def mode_problems(config: TrainConfig, facts: MachineFacts) -> Iterator[Problem]:
    """What keeps the model from generating in the mode that was asked for, or chosen."""
    launch = config.launch
    mode, _ = launch_mode(config, facts)
    if mode is not LaunchMode.single and not facts.gpus:
        message = f"launch={mode.name} generates with vLLM, and no GPU is visible"
        yield Problem("launch.mode", message, "use launch=single")
        return
    if mode is not LaunchMode.single and facts.vllm is None:
        # TRL's client imports vLLM in the trainer too (trl/generation/vllm_client.py), wherever the server lives.
        where = " in the trainer's environment too: TRL's client imports it" if mode is LaunchMode.server else ""
        message = f"launch={mode.name} needs vLLM, which isn't installed{where and ', '}{where.strip()}"
        yield Problem("launch.mode", message, f"{INSTALL_VLLM}, or use launch=single")
    if mode is LaunchMode.server and launch.processes > 1:
        message = (
            f"launch=server with launch.processes={launch.processes}: the training processes ask the server together, "
            "and wait for each other for ever once their episodes take different numbers of tool calls (TRL 1.16)"
        )
        yield Problem("launch.processes", message, "use launch=colocate, or launch.processes=1 with more vllm_gpus")
        return
    if mode is not LaunchMode.server:
        yield from _ignored(launch, mode)
    yield from gpu_problems(launch, facts, mode)


def _ignored(launch: LaunchConfig, mode: LaunchMode) -> Iterator[Problem]:
    for name in _SERVER_KEYS:
        if getattr(launch, name) != getattr(LaunchConfig(), name):
            message = f"launch.{name} is for a vLLM server, and with launch={mode.name} there is none"
            yield Problem(f"launch.{name}", message, f"leave launch.{name} out, or use launch=server")
