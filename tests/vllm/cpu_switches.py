"""What vLLM 0.29 has to be told on a CPU, once, in every process that loads a model: to keep weights in the layout in
which they are loaded. In the one that its CPU kernels like better they can't be loaded a second time, which is what
training does after every step.
"""

from __future__ import annotations

from typing import Any

import vllm._custom_ops
import vllm.model_executor.layers.utils


def _plain_layout(*args: Any, **kwargs: Any) -> bool:
    return False


vllm._custom_ops._supports_onednn = False
vllm.model_executor.layers.utils.check_cpu_sgl_kernel = _plain_layout


class Worker:
    """Named to `vllm serve` as an extension of its workers, so that each of them imports this module."""
