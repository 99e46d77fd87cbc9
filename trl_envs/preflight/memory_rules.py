"""What speaks against a run on its GPU's memory, and the overrides that fit. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from trl_envs.config.grpo_fields import grpo_value
from trl_envs.config.schema import LoraConfig, TrainConfig
from trl_envs.preflight.findings import Finding
from trl_envs.preflight.memory import Lengths, Needs, checkpoints, estimate, vllm_needs_gib
from trl_envs.preflight.model_shape import ModelShape


@dataclass(frozen=True)
class Case:
    """What the estimate depends on beside the config.

    Args:
        shape: Of the model.
        expected: Lengths that scripted games had, thoughts allowed for.
        worst: Lengths that the config allows.
        mode: single, colocate or server.
        at_once: Episodes that a training process plays at once.
        gpu: The GPU's name.
        gpu_gib: Its memory.
    """

    shape: ModelShape
    expected: Lengths
    worst: Lengths
    mode: str
    at_once: int
    gpu: str
    gpu_gib: float

    def needs(self, config: TrainConfig, lengths: Lengths) -> Needs:
        """The estimate for a config and episodes of these lengths."""
        return estimate(config, self.shape, lengths, mode=self.mode, at_once=self.at_once, gpu_gib=self.gpu_gib)


def memory_findings(config: TrainConfig, case: Case) -> list[Finding]:
    """Errors for what can't fit with episodes as they are expected, a warning for what can't with the longest ones."""
    found = list(_vllm(config, case))
    expected, worst = case.needs(config, case.expected).peak, case.needs(config, case.worst).peak
    where = f"{case.gpu} has {case.gpu_gib:.1f} GiB"
    if expected > case.gpu_gib:
        message = (
            f"training needs about {expected:.1f} GiB with episodes of {case.expected.completion} tokens, and {where}"
        )
        hint = _fitting(config, case, case.expected) or "a smaller model=, or a larger GPU"
        found.append(Finding("error", "model.path", message, hint))
    elif worst > case.gpu_gib:
        message = (
            f"training may need {worst:.1f} GiB once episodes are as long as grpo.max_completion_length="
            f"{case.worst.completion} allows, and {where}"
        )
        hint = _fitting(config, case, case.worst) or "set a smaller grpo.max_completion_length"
        found.append(Finding("warning", "grpo.per_device_train_batch_size", message, hint))
    return found


def _vllm(config: TrainConfig, case: Case) -> Iterator[Finding]:
    """vLLM doesn't start if its share can't hold one sequence of the length that it is started with."""
    if case.mode != "colocate":
        return
    key = "grpo.vllm_gpu_memory_utilization"
    length = grpo_value(config.grpo, "vllm_max_model_length") or case.worst.together
    share, needed = case.needs(config, case.worst).vllm, vllm_needs_gib(case.shape, int(length))
    if needed > share:
        wanted = -(-100 * needed // case.gpu_gib) / 100
        message = (
            f"vLLM needs about {needed:.1f} GiB for its weights and one sequence of {length} tokens, and "
            f"{key}={grpo_value(config.grpo, key[5:]):g} of {case.gpu_gib:.1f} GiB is {share:.1f}"
        )
        hint = f"set {key}={wanted:g}" if wanted < 0.9 else "choose a smaller model=, or launch=single"
        yield Finding("error", key, message, hint)


def _fitting(config: TrainConfig, case: Case, lengths: Lengths) -> str:
    """The overrides, as few as it takes in the order of what they cost, with which the run fits; empty if none do."""
    settings: dict[str, Any] = {}
    for change in _changes(config):
        settings |= change
        if case.needs(_changed(config, settings), lengths).peak <= case.gpu_gib:
            return "set " + " ".join(f"{key}={_text(value)}" for key, value in settings.items())
    return ""


def _changes(config: TrainConfig) -> Iterator[dict[str, Any]]:
    """What makes a run smaller: first what costs time alone, then what changes what is trained."""
    if not checkpoints(config):
        yield {"grpo.gradient_checkpointing": True}
    batch = int(grpo_value(config.grpo, "per_device_train_batch_size"))
    steps = int(grpo_value(config.grpo, "gradient_accumulation_steps"))
    while batch % 2 == 0:
        # The same generation batch in smaller pieces.
        batch, steps = batch // 2, steps * 2
        yield {"grpo.per_device_train_batch_size": batch, "grpo.gradient_accumulation_steps": steps}
    if config.model.dtype != "bfloat16":
        yield {"model.dtype": "bfloat16"}
    if config.model.lora is None:
        yield {"model.lora.rank": 16}


def _changed(config: TrainConfig, settings: dict[str, Any]) -> TrainConfig:
    grpo = {key.removeprefix("grpo."): value for key, value in settings.items() if key.startswith("grpo.")}
    model = replace(config.model, dtype=settings.get("model.dtype", config.model.dtype))
    if "model.lora.rank" in settings:
        model = replace(model, lora=LoraConfig(rank=settings["model.lora.rank"]))
    return replace(config, grpo={**config.grpo, **grpo}, model=model)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
