"""How tokens are chosen, by whatever generates them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trl_envs.config.grpo_fields import grpo_value


@dataclass(frozen=True)
class Sampling:
    """How tokens are chosen; names as in GRPOConfig.

    Args:
        temperature: 0 is greedy, and the settings below then have no say.
        top_p: Share of the probability to choose from.
        top_k: Number of tokens to choose from; 0 is all.
        min_p: Least probability, as a share of the best token's; None is off.
        repetition_penalty: 1 is off.
        generation_kwargs: Further arguments of GenerationConfig.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float | None = None
    repetition_penalty: float = 1.0
    generation_kwargs: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of_run(cls, grpo: dict[str, Any], temperature: float | None) -> Sampling:
        """The run's settings.

        Args:
            grpo: The config's `grpo`.
            temperature: Another temperature; None takes the run's.
        """
        named = {name: grpo_value(grpo, name) for name in ("top_p", "top_k", "min_p", "repetition_penalty")}
        if temperature is None:
            temperature = grpo_value(grpo, "temperature")
        return cls(**named, temperature=temperature, generation_kwargs=grpo_value(grpo, "generation_kwargs") or {})

    def as_arguments(self) -> dict[str, Any]:
        """Arguments of GenerationConfig."""
        if self.temperature == 0:
            return {"do_sample": False, "repetition_penalty": self.repetition_penalty, **self.generation_kwargs}
        return {
            "do_sample": True,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "top_k": self.top_k,
            "min_p": self.min_p,
            "repetition_penalty": self.repetition_penalty,
            **self.generation_kwargs,
        }
