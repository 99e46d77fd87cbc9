"""What the trainer writes as it goes, and the adapter it trains."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from trl_envs.config.schema import ModelConfig
from trl_envs.results.metrics import MetricsWriter

if TYPE_CHECKING:
    from peft import LoraConfig


class MetricsCallback(TrainerCallback):  # type: ignore[misc]
    """Appends every line of metrics to metrics.jsonl.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self._writer = MetricsWriter(path)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        """Called by the trainer with the metrics since the last call."""
        if state.is_world_process_zero and logs:
            self._writer.write(state.global_step, logs)


def lora_config(model: ModelConfig) -> LoraConfig | None:
    """The adapter to train; None trains all weights."""
    if model.lora is None:
        return None
    from peft import LoraConfig

    return LoraConfig(
        r=model.lora.rank, lora_alpha=model.lora.alpha, target_modules=model.lora.target_modules, task_type="CAUSAL_LM"
    )
