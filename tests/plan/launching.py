"""Machines that a launch is planned for, and its plan there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trl_envs.config.compose import compose
from trl_envs.machine import Conflict, Gpu
from trl_envs.plan.build import build_plan
from trl_envs.plan.facts import MachineFacts
from trl_envs.plan.launch_plan import LaunchPlan
from trl_envs.preflight.findings import Report, raise_errors
from trl_envs.preflight.rules import check_static

T4, V100, A100, H200 = ("T4", 15.0, 7.5), ("V100", 32.0, 7.0), ("A100", 80.0, 8.0), ("H200", 140.0, 9.0)
INSTALLED = {"trl": "1.16.0", "openenv": "0.10.0", "transformers": "5.24.0", "torch": "2.13.0", "mcp": "1.30.0"}
QWEN = {  # the config.json of Qwen3-1.7B, as far as it is read
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "vocab_size": 151936,
    "tie_word_embeddings": True,
    "max_position_embeddings": 40960,
}


def gpus(*kinds: tuple[str, float, float], visible_as: tuple[str, ...] = ()) -> list[Gpu]:
    return [Gpu(i, *kind, visible_as=visible_as[i] if visible_as else "") for i, kind in enumerate(kinds)]


def facts(**changes: Any) -> MachineFacts:
    ports = iter(range(9000, 9100))
    values: dict[str, Any] = {
        "gpus": [],
        "mps": False,
        "vllm": "0.29.0",
        "free_port": lambda host: next(ports),
        "variables": {},
        "port_is_free": lambda host, port: True,
        "versions": INSTALLED,
        "accelerate_configs": Path("/trl/accelerate_configs"),
        "model_settings": lambda model: None,
    }
    return MachineFacts(**{**values, **changes})


def plan(overrides: str, **changes: Any) -> LaunchPlan:
    """As `train` makes it: checked, then built."""
    composed, found = compose(["recipe=wordle", *overrides.split()]), facts(**changes)
    raise_errors(Report(check_static(composed.config, found)))
    return build_plan(composed.config, found, Path("/runs/one"), [])


def seen_by(planned: LaunchPlan) -> tuple[str | None, str | None]:
    """CUDA_VISIBLE_DEVICES of the vLLM server and of the trainer."""
    engine = planned.engine.process.variables if planned.engine else {}
    return engine.get("CUDA_VISIBLE_DEVICES"), planned.trainer.variables.get("CUDA_VISIBLE_DEVICES")


ONE, TWO, FOUR = gpus(A100), gpus(A100, A100), gpus(H200, H200, H200, H200)
UUIDS = gpus(A100, A100, visible_as=("GPU-aa", "GPU-bb"))
OLD = {**INSTALLED, "vllm": "0.31.0"}
TORCH = Conflict("vllm", "0.29.0", "torch==2.13.0", "torch", "2.14.1")
