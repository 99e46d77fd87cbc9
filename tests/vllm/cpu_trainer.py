"""The training worker with a vLLM that works on a CPU: `python cpu_trainer.py RUN_DIR ...`, else as the worker itself.

Towards a server NCCL, which needs GPUs, is replaced: TRL's client writes the weights into the folder of the served
model and has the server load them again. When and with which weights it is called is TRL's doing as ever.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cpu_switches  # noqa: F401
import torch
from safetensors.torch import save_file
from trl.generation.vllm_client import VLLMClient

from trl_envs.training.worker import main


def join_nothing(client: VLLMClient, device: Any = 0) -> None:
    """In place of `init_communicator`."""


def reload(client: VLLMClient, metadata: Any, named_params: Iterator[tuple[str, torch.Tensor]]) -> None:
    """In place of `update_named_params`."""
    served = Path(client.model) / "model.safetensors"
    written = served.with_name("being-written")
    save_file({name: tensor.detach().clone().contiguous() for name, tensor in named_params}, written)
    written.replace(served)
    client._post(f"{client.base_url}/collective_rpc", json={"method": "reload_weights"})


def keep(client: VLLMClient, metadata: Any, named_params: Iterator[tuple[str, torch.Tensor]]) -> None:
    """In place of `update_named_params` where the server is to stay with the weights that it started with."""


if __name__ == "__main__":
    VLLMClient.init_communicator = join_nothing
    VLLMClient.update_named_params = keep if os.environ.get("STALE_WEIGHTS") else reload
    sys.exit(main(sys.argv[1:]))
