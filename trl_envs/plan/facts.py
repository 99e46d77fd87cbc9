"""What a plan depends on besides the config."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from trl_envs.config.model_location import base_model, model_location, model_settings
from trl_envs.machine import Conflict, Gpu, docker_problem, port_is_free


def unique_id() -> str:
    """Eight hexadecimal digits that nobody else has."""
    return uuid4().hex[:8]


def served_model(path: str) -> str:
    """What a vLLM server has to serve for a `model.path`: the model's location, without its adapter.

    Raises:
        ConfigError: A run directory without a model.
    """
    return base_model(model_location(path))


@dataclass(frozen=True)
class MachineFacts:
    """What the machine has, asked once.

    Args:
        gpus: Visible CUDA devices.
        mps: Whether it is an Apple machine with Metal.
        vllm: Installed version of vLLM, or None.
        free_port: Gives a free TCP port for a host; raises OSError where none can be had.
        variables: The launcher's environment variables.
        port_is_free: Whether a server could listen on a host and port (0: on any port).
        versions: Installed versions by distribution; what isn't in it isn't checked.
        docker_problem: Why no container can be run here, empty if one can; asked only if a container is wanted.
        unique_id: Gives a word for names that nobody else may use at the same time.
        vllm_program: How `vllm` is called here.
        accelerate_configs: Folder of accelerate config files that TRL ships; None without TRL.
        served_model: Gives what a vLLM server has to serve for a `model.path`.
        model_settings: Gives the config.json of a served model; None if it isn't on this machine.
        conflicts: What installed packages ask of each other and don't get.
        cpus: Processor cores that this process may use.
    """

    gpus: Sequence[Gpu]
    mps: bool
    vllm: str | None
    free_port: Callable[[str], int]
    variables: Mapping[str, str]
    port_is_free: Callable[[str, int], bool] = port_is_free
    versions: Mapping[str, str | None] = field(default_factory=dict)
    docker_problem: Callable[[], str] = docker_problem
    unique_id: Callable[[], str] = unique_id
    vllm_program: str = "vllm"
    accelerate_configs: Path | None = None
    served_model: Callable[[str], str] = served_model
    model_settings: Callable[[str], Mapping[str, Any] | None] = model_settings
    conflicts: Sequence[Conflict] = ()
    cpus: int = 1
