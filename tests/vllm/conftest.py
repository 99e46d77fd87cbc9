"""A machine with pretended GPUs and a real vLLM on its CPU. All switches that this takes are here and beside it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from trl_envs import launch
from trl_envs.machine import Gpu
from trl_envs.plan.build import build_plan
from trl_envs.plan.facts import MachineFacts
from trl_envs.plan.launch_plan import LaunchPlan

HERE = Path(__file__).parent
VARIABLES = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
}


@pytest.fixture(autouse=True)
def vllm_on_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """What vLLM needs in its environment, in the trainer's process as in its own."""
    if find_spec("vllm") is None:
        pytest.skip("vLLM isn't installed here: make test-vllm")
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.fixture
def vllm_program(tmp_path: Path) -> Path:
    """For launch.vllm_executable: this environment's vLLM, with what it takes to run on a CPU."""
    program = tmp_path / "vllm"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {HERE / "cpu_server.py"} "$@"\n')
    program.chmod(0o755)
    return program


def with_gpus(facts: MachineFacts, number: int) -> MachineFacts:
    return replace(facts, gpus=[Gpu(index, "pretended", 80.0, 9.0) for index in range(number)])


def on_cpu(plan: LaunchPlan) -> LaunchPlan:
    """A plan for GPUs, with a trainer that does the same on a CPU."""
    trainer = (sys.executable, str(HERE / "cpu_trainer.py"), *plan.trainer.argv[3:])
    grpo = {**plan.grpo, "use_cpu": True, "bf16": False}
    return replace(plan, device="cpu", grpo=grpo, trainer=replace(plan.trainer, argv=trainer))


@pytest.fixture
def pretend_gpus(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Makes `trl_envs.launch` see so many GPUs, and train on the CPU all the same."""

    def planned(*arguments: Any) -> LaunchPlan:
        return on_cpu(build_plan(*arguments))

    def pretend(number: int) -> None:
        facts = launch.machine_facts
        monkeypatch.setattr(launch, "machine_facts", lambda: with_gpus(facts(), number))
        monkeypatch.setattr(launch, "build_plan", planned)

    return pretend
