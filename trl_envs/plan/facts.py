"""What a plan depends on besides the config."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from trl_envs.machine import Gpu, port_is_free


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
    """

    gpus: Sequence[Gpu]
    mps: bool
    vllm: str | None
    free_port: Callable[[str], int]
    variables: Mapping[str, str]
    port_is_free: Callable[[str, int], bool] = port_is_free
    versions: Mapping[str, str | None] = field(default_factory=dict)
