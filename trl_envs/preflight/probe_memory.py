"""GPU memory: the estimate for the GPU that the trainer will see, from the model's config and the games' lengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trl_envs.config.grpo_fields import grpo_value
from trl_envs.config.schema import TrainConfig
from trl_envs.machine import Gpu, gpus
from trl_envs.preflight.memory import SHARDED, Lengths
from trl_envs.preflight.memory_rules import Case, memory_findings
from trl_envs.preflight.model_shape import shape_of
from trl_envs.preflight.probe_model import ModelFacts
from trl_envs.preflight.probe_report import Collector
from trl_envs.preflight.token_rules import THINKING_TOKENS, Games


def check_memory(
    config: TrainConfig,
    plan: Mapping[str, Any],
    model: ModelFacts,
    games: Mapping[str, Sequence[Games]],
    collector: Collector,
    *,
    thinks: bool,
) -> None:
    """Holds the estimate against the smallest GPU of the trainer; without a GPU there is nothing to do.

    Args:
        config: The run's config.
        plan: plan.json.
        model: What is known of the model.
        games: Scripted games by environment.
        collector: Takes findings and the figure `memory`.
        thinks: Whether the model is asked to think.
    """
    if plan["device"] != "cuda":
        return
    # This process sees what the trainer will see: both get the plan's variables.
    seen = gpus()
    case = _case(config, plan, model, games, seen, thinks=thinks)
    if isinstance(case, str):
        collector.figure("memory", {"parts": {}, "why_not": case})
        return
    for finding in memory_findings(config, case):
        collector.add(finding.level, finding.key, finding.message, finding.hint)
    expected = case.needs(config, case.expected)
    collector.figure(
        "memory",
        {
            "gpu": case.gpu,
            "gpu_gib": case.gpu_gib,
            "parameters": case.shape.parameters,
            "parts": {name: round(gib, 3) for name, gib in expected.parts().items()},
            "peak_gib": round(expected.peak, 2),
            "worst_gib": round(case.needs(config, case.worst).peak, 2),
        },
    )


def _case(
    config: TrainConfig,
    plan: Mapping[str, Any],
    model: ModelFacts,
    games: Mapping[str, Sequence[Games]],
    seen: Sequence[Gpu],
    *,
    thinks: bool,
) -> Case | str:
    """What the estimate depends on; or why there can't be one, in words."""
    shape = shape_of(model.config, model.parameters)
    if shape is None:
        return "the model's config isn't of a build that trl-env knows"
    if config.launch.accelerate in SHARDED:
        return f"launch.accelerate={config.launch.accelerate} splits the model over the GPUs"
    sizes = [(gpu.memory_gib, gpu.name) for gpu in seen if gpu.memory_gib is not None]
    if not sizes:
        return "nvidia-smi doesn't say how much memory the GPU has"
    every = [one for several in games.values() for one in several]
    if not every:
        return "no scripted game could be counted"
    prompt = max(game.prompt.p95 for game in every)
    longest = max(game.completion_with(THINKING_TOKENS if thinks else 0) for game in every)
    allowed = int(grpo_value(config.grpo, "max_completion_length"))
    gpu_gib, gpu = min(sizes)
    return Case(
        shape=shape,
        expected=Lengths(prompt, min(longest, allowed)),
        worst=Lengths(prompt, allowed),
        mode=plan["mode"],
        at_once=int(plan["batch"]["per_process"]),
        gpu=gpu,
        gpu_gib=gpu_gib,
    )
