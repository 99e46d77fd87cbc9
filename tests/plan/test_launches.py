"""The table of launches: which GPUs, versions and models give which processes, or which refusal."""

# A case is a line, however long.
# ruff: noqa: E501

from __future__ import annotations

from typing import Any

import pytest

from tests.plan.launching import (
    A100,
    FOUR,
    INSTALLED,
    OLD,
    ONE,
    T4,
    TORCH,
    TWO,
    UUIDS,
    V100,
    facts,
    gpus,
    plan,
    seen_by,
)
from trl_envs.config.compose import compose
from trl_envs.preflight.rules import check_static

PLANNED: list[tuple[str, dict[str, Any], str, str, str | None, str | None]] = [
    ("", {"vllm": None}, "single", "no GPU is visible", None, None),
    ("", {}, "single", "no GPU is visible", None, None),
    ("", {"mps": True}, "single", "float32", None, None),
    ("", {"gpus": ONE}, "colocate", "one GPU (A100)", None, None),
    ("", {"gpus": ONE, "vllm": None}, "single", "pip install 'trl-env[vllm]'", None, None),
    ("", {"gpus": TWO, "vllm": None}, "single", "vLLM isn't installed", None, "0"),
    ("", {"gpus": TWO}, "server", "vLLM on GPU 0, trainer on GPU 1", "0", "1"),
    ("", {"gpus": FOUR}, "server", "vLLM on GPUs 0, 1, 2, trainer on GPU 3", "0,1,2", "3"),
    ("", {"gpus": UUIDS}, "server", "2 GPUs", "GPU-aa", "GPU-bb"),
    ("", {"gpus": gpus(T4)}, "colocate", "mixed float16", None, None),
    ("", {"gpus": gpus(V100)}, "single", "V100 has 7.0", None, None),
    ("", {"gpus": gpus(V100, V100)}, "single", "compute capability 7.5", None, "0"),
    ("", {"gpus": gpus(A100, T4)}, "server", "mixed float16", "0", "1"),
    ("preset=smoke", {"gpus": TWO}, "single", "asked for", None, "0"),
    ("launch=single", {"gpus": ONE, "vllm": None}, "single", "asked for", None, None),
    ("launch=colocate", {"gpus": TWO}, "colocate", "asked for", None, "0"),
    ("launch=colocate launch.gpus=[1]", {"gpus": TWO}, "colocate", "asked for", None, "1"),
    ("launch.gpus=[1]", {"gpus": TWO}, "colocate", "leaves the others alone", None, "1"),
    ("launch.processes=2", {"gpus": TWO}, "colocate", "several training processes", None, None),
    ("launch.processes=2 launch.gpus=[2,3]", {"gpus": FOUR}, "colocate", "several", None, "2,3"),
    ("launch=server", {"gpus": TWO}, "server", "asked for: vLLM on GPU 0", "0", "1"),
    ("launch=server launch.gpus=[0]", {"gpus": TWO}, "server", "trainer on GPU 0", "1", "0"),
    ("launch.vllm_gpus=[1,2]", {"gpus": FOUR}, "server", "vLLM on GPUs 1, 2, trainer on GPU 3", "1,2", "3"),
    ("launch=server launch.vllm_tensor_parallel=2 launch.gpus=[0] launch.vllm_gpus=[1,2]", {"gpus": FOUR}, "server", "", "1,2", "0"),
    ("launch=server model=owner/adapter", {"gpus": TWO, "served_model": lambda path: "base/model"}, "server", "", "0", "1"),
    ("model=tiny", {"gpus": ONE}, "colocate", "one GPU", None, None),
    ("launch=single", {"gpus": ONE, "versions": OLD, "vllm": "0.31.0"}, "single", "asked for", None, None),
    ("launch=single", {"gpus": ONE, "conflicts": [TORCH]}, "single", "asked for", None, None),
]  # fmt: skip


def name_of(value: object) -> str:
    """The same in every test process, which addresses of functions aren't."""
    return "+".join(value) if isinstance(value, dict) else str(value)


@pytest.mark.parametrize(("overrides", "machine", "mode", "reason", "engine", "trainer"), PLANNED, ids=name_of)
def test_the_launch_follows_from_gpus_mode_versions_and_model(
    overrides: str, machine: dict[str, Any], mode: str, reason: str, engine: str | None, trainer: str | None
) -> None:
    planned = plan(overrides, **machine)
    assert planned.mode == mode
    assert reason in planned.reason
    assert seen_by(planned) == (engine, trainer)
    assert planned.grpo["use_vllm"] is (mode != "single")
    assert planned.grpo.get("vllm_mode") == (None if mode == "single" else mode)
    assert (planned.engine is not None) is (mode == "server")


# overrides, machine -> key, part of the message, part of what mends it
REFUSED: list[tuple[str, dict[str, Any], str, str, str]] = [
    ("launch=server", {}, "launch.mode", "no GPU is visible", "launch=single"),
    ("launch=server", {"gpus": ONE}, "launch.mode", "1 GPU(s) are visible", "launch=colocate"),
    ("launch=server", {"gpus": TWO, "vllm": None}, "launch.mode", "TRL's client imports it", "trl-env[vllm]"),
    ("launch=colocate", {"gpus": ONE, "vllm": None}, "launch.mode", "isn't installed", "trl-env[vllm]"),
    ("launch=server launch.processes=2", {"gpus": FOUR}, "launch.processes", "for ever", "launch=colocate"),
    ("launch=server launch.gpus=[0] launch.vllm_gpus=[0]", {"gpus": TWO}, "launch.vllm_gpus", "both name GPU 0", "launch=colocate"),
    ("launch.vllm_gpus=[0,1]", {"gpus": TWO}, "launch.vllm_gpus", "leaves 0 GPU(s)", "launch=colocate"),
    ("launch=server launch.vllm_gpus=[7]", {"gpus": TWO}, "launch.vllm_gpus", "no GPU 7 (visible here: 0, 1)", "null"),
    ("launch.gpus=[2]", {"gpus": TWO}, "launch.gpus", "no GPU 2", "launch.gpus=[0]"),
    ("launch.gpus=[0]", {}, "launch.gpus", "no GPU is visible here", "launch.gpus=null"),
    ("launch.gpus=[0,0]", {"gpus": TWO}, "launch.gpus", "twice", "launch.gpus=[0]"),
    ("launch.gpus=[0,1]", {"gpus": TWO}, "launch.gpus", "exactly one GPU", "launch.processes=2"),
    ("launch.processes=4", {"gpus": TWO}, "launch.processes", "each needs its own", "launch.processes=2"),
    ("launch.vllm_tensor_parallel=2", {"gpus": FOUR}, "launch.vllm_tensor_parallel", "doesn't divide the 3", "=1"),
    ("launch=colocate launch.vllm_gpus=[1]", {"gpus": TWO}, "launch.vllm_gpus", "there is none", "launch=server"),
    ("launch.vllm_args=[--port,8000]", {"gpus": TWO}, "launch.vllm_args", "--port", "free one"),
    ("launch.vllm_args=[--tensor_parallel_size,2]", {"gpus": TWO}, "launch.vllm_args", "-parallel", "vllm_tensor_parallel"),
    ("launch.vllm_args=[--weight-transfer-config.backend,ipc]", {"gpus": TWO}, "launch.vllm_args", "--weight", "NCCL"),
    ("launch.vllm_args=[Qwen/Qwen3-4B]", {"gpus": TWO}, "launch.vllm_args", "second model", "--option"),
    ("grpo.vllm_max_model_length=8192", {"gpus": TWO}, "grpo.vllm_max_model_length", "middle of the run", "null"),
    ("model=tiny", {"gpus": TWO, "model_settings": lambda m: {"max_position_embeddings": 8192}}, "grpo.max_completion_length", "tiny takes 8192", "=3072"),
    ("grpo.bf16=true", {"gpus": gpus(T4)}, "grpo.bf16", "no bfloat16", "float16"),
    ("model.dtype=bfloat16", {"gpus": gpus(T4)}, "model.dtype", "no bfloat16", "model.dtype=float32"),
    ("launch.accelerate=multi_gpu", {}, "launch.accelerate", "none is visible", "launch.accelerate=null"),
    ("launch.accelerate=zero9 launch.processes=2", {"gpus": TWO}, "launch.accelerate", "none of multi_gpu", "multi_gpu"),
    ("launch.accelerate=multi_gpu", {"gpus": ONE}, "launch.accelerate", "nothing to share", "launch.processes=2"),
    ("launch.accelerate=zero3 launch.processes=2", {"gpus": TWO, "versions": {"deepspeed": None}}, "launch.accelerate", "needs DeepSpeed", "pip install"),
    ("launch=single launch.accelerate=zero3 launch.processes=2", {"gpus": TWO}, "launch.accelerate", "for ever", "launch=colocate"),
    ("launch=single launch.accelerate=fsdp2 launch.processes=2", {"gpus": TWO}, "launch.accelerate", "for ever", "zero2"),
    ("launch.accelerate=zero3 launch.processes=2 grpo.ds3_gather_for_generation=false", {"gpus": TWO}, "grpo.ds3_gather_for_generation", "in pieces", "true"),
    ("launch.processes=2 grpo.vllm_tensor_parallel_size=2", {"gpus": TWO}, "grpo.vllm_tensor_parallel_size", "for ever", "=1"),
    ("launch.accelerate=fsdp2 launch.processes=2 grpo.vllm_enable_sleep_mode=true", {"gpus": TWO}, "grpo.vllm_enable_sleep_mode", "for ever", "false"),
    ("launch.machines=2 launch.processes=4", {"gpus": TWO}, "launch.main_process_ip", "can't meet", "10.0.0.1"),
    ("launch.machine_rank=1", {"gpus": ONE}, "launch.machine_rank", "launch.machines=1", "launch.machines=2"),
    ("", {"gpus": ONE, "versions": OLD, "vllm": "0.31.0"}, "vllm", "vllm 0.31.0", "pip install 'vllm>=0.28,<0.30'"),
    ("", {"gpus": ONE, "conflicts": [TORCH]}, "torch", "needs torch==2.13.0, and torch 2.14.1", "'vllm==0.29.0' 'torch==2.13.0'"),
    ("", {"versions": {**INSTALLED, "mcp": "2.1.0"}}, "mcp", "mcp 2.1.0", "pip install 'mcp>=1.24,<2.0'"),
]  # fmt: skip


@pytest.mark.parametrize(("overrides", "machine", "key", "message", "fix"), REFUSED, ids=name_of)
def test_a_launch_that_would_hang_or_fail_is_refused(
    overrides: str, machine: dict[str, Any], key: str, message: str, fix: str
) -> None:
    config = compose(["recipe=wordle", *overrides.split()]).config
    found = [finding for finding in check_static(config, facts(**machine)) if finding.key == key]
    assert found, check_static(config, facts(**machine))
    assert message in found[0].message
    assert fix in found[0].hint


def test_there_are_enough_cases() -> None:
    assert len(PLANNED) >= 25
    assert len(REFUSED) >= 25
