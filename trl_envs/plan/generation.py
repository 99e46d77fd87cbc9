"""The fields of GRPOConfig that follow from the launch: device, number format, and how the model generates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trl_envs.config.schema import LaunchMode, TrainConfig
from trl_envs.plan.batch import BatchPlan
from trl_envs.plan.facts import MachineFacts
from trl_envs.plan.gpus import GpuSplit
from trl_envs.plan.launch_plan import EnginePlan
from trl_envs.plan.memory_share import memory_share
from trl_envs.plan.mode import device_of, has_bf16
from trl_envs.plan.problem import Problem
from trl_envs.plan.tokens import model_length


def derived_fields(
    config: TrainConfig,
    facts: MachineFacts,
    mode: LaunchMode,
    batch: BatchPlan,
    split: GpuSplit,
    engine: EnginePlan | None,
) -> dict[str, Any]:
    """GRPOConfig's fields by name: those that the launch owns, and those that it derives where `grpo` says nothing."""
    owned: dict[str, Any] = {"use_cpu": device_of(facts) == "cpu", "use_vllm": mode is not LaunchMode.single}
    derived = precision(config, facts)
    if engine is not None:
        owned |= {
            "vllm_mode": "server",
            "vllm_server_base_url": engine.url,
            "vllm_server_timeout": config.launch.ready_timeout_s,
            "vllm_group_port": engine.group_port,
        }
    elif mode is LaunchMode.colocate:
        settings = facts.model_settings(facts.served_model(config.model.path))
        length = model_length(config, mode, settings)
        memory_gib = split.trainer[0].memory_gib if split.trainer else None
        owned["vllm_mode"] = "colocate"
        derived["vllm_max_model_length"] = length
        derived["vllm_gpu_memory_utilization"] = memory_share(settings, length, batch.per_process, memory_gib)
    free = {name: value for name, value in derived.items() if name not in config.grpo and value is not None}
    return {**owned, **free}


def precision(config: TrainConfig, facts: MachineFacts) -> dict[str, Any]:
    """bf16 and fp16, as far as `grpo` leaves them open. GRPOConfig's own default is bf16, which raises on a CPU.

    A GPU before Ampere trains in mixed float16. Weights that are float16 themselves can't: the gradient scaler refuses
    their gradients.
    """
    grpo = config.grpo
    if grpo.get("fp16") or grpo.get("bf16"):
        return {}
    if device_of(facts) == "cuda":
        mixed = config.model.dtype != "float16" and grpo.get("fp16") is None
        return {} if has_bf16(facts) else {"bf16": False, "fp16": mixed}
    return {"bf16": False}


def mixed_precision(config: TrainConfig, facts: MachineFacts) -> str:
    """The same in accelerate's word: bf16, fp16 or no."""
    values = {"bf16": not config.grpo.get("fp16"), **precision(config, facts), **config.grpo}
    return "fp16" if values.get("fp16") else "bf16" if values.get("bf16") else "no"


def precision_problems(config: TrainConfig, facts: MachineFacts) -> Iterator[Problem]:
    """Number formats that the GPUs don't have, or that can't be trained together."""
    grpo, dtype = config.grpo, config.model.dtype
    if facts.gpus and not has_bf16(facts):
        why = f"{facts.gpus[0].name} (compute capability {facts.gpus[0].compute_capability}) has no bfloat16"
        if grpo.get("bf16") is True:
            yield Problem("grpo.bf16", f"grpo.bf16=true, and {why}", "leave grpo.bf16 out: float16 is used")
        if dtype == "bfloat16":
            yield Problem("model.dtype", f"model.dtype=bfloat16, and {why}", "set model.dtype=float32")
    if dtype == "float16" and grpo.get("fp16") is True:
        message = "model.dtype=float16 with grpo.fp16=true: the gradient scaler refuses gradients that are float16"
        yield Problem("model.dtype", message, "set model.dtype=float32, or leave grpo.fp16 out")
