"""How long vLLM's sequences may get: the recipe's token budget, before any tokenizer has been loaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trl_envs.config.grpo_fields import grpo_value
from trl_envs.config.schema import LaunchMode, TrainConfig
from trl_envs.plan.problem import Problem

# For what stands around the prompt's own text: the chat template, the tools' descriptions, the first observation.
AROUND_PROMPT_TOKENS = 2048
# A byte-level tokenizer makes about one token of four bytes of English; half of that leaves room for other scripts.
_BYTES_A_TOKEN = 2
_ROUND_TO_TOKENS = 256


def prompt_tokens(config: TrainConfig) -> int:
    """An upper estimate of the longest prompt of a run, in tokens."""
    texts = [(env.system_prompt or "") + env.prompt for env in config.envs.values()]
    longest_bytes = max((len(text.encode()) for text in texts), default=0)
    return longest_bytes // _BYTES_A_TOKEN + AROUND_PROMPT_TOKENS


def model_length(config: TrainConfig, mode: LaunchMode, settings: Mapping[str, Any] | None) -> int | None:
    """Tokens of the longest sequence that vLLM must take; None leaves it to vLLM, which takes the model's own.

    In the trainer that is prompt and completion. A server refuses a request (HTTP 400) that might come to more, and
    TRL asks in each turn for max_completion_length tokens on top of what has been said before.

    Args:
        config: What was asked for; `grpo.vllm_max_model_length` wins.
        mode: colocate or server.
        settings: The model's config.json, if it is at hand: a sequence can't be longer than the model allows.
    """
    asked, completion = grpo_value(config.grpo, "vllm_max_model_length"), _completion(config)
    if isinstance(asked, int) or completion is None:
        return asked if isinstance(asked, int) else None
    wanted = prompt_tokens(config) + completion * (2 if mode is LaunchMode.server else 1)
    wanted += -wanted % _ROUND_TO_TOKENS
    return min(wanted, positions(settings) or wanted)


def positions(settings: Mapping[str, Any] | None) -> int | None:
    """Positions that a model was made for, by its config.json; None if that doesn't say, or stretches them (rope)."""
    if settings is None:
        return None
    inner: Mapping[str, Any] = settings.get("text_config") or settings
    rope = inner.get("rope_scaling") or inner.get("rope_parameters") or {}
    value = inner.get("max_position_embeddings")
    stretched = isinstance(rope, Mapping) and "factor" in rope
    return value if isinstance(value, int) and not stretched else None


def length_problems(config: TrainConfig, mode: LaunchMode, settings: Mapping[str, Any] | None) -> Iterator[Problem]:
    """Lengths with which a vLLM server would refuse TRL's requests in the middle of a run."""
    completion = _completion(config)
    if mode is not LaunchMode.server or completion is None:
        return
    asked = grpo_value(config.grpo, "vllm_max_model_length")
    most = asked if isinstance(asked, int) else positions(settings)
    if most is None or most > 2 * completion:
        return
    key = "grpo.vllm_max_model_length" if isinstance(asked, int) else "grpo.max_completion_length"
    what = f"{key}={asked}" if isinstance(asked, int) else f"{config.model.path} takes {most} tokens"
    message = (
        f"{what}, and the server is asked for up to a prompt and twice grpo.max_completion_length={completion} tokens: "
        "it would refuse requests in the middle of the run"
    )
    fitting = max((most - AROUND_PROMPT_TOKENS) // 2, most // 4, 1)
    wider = "grpo.vllm_max_model_length=null" if isinstance(asked, int) else "launch=colocate"
    yield Problem(key, message, f"set grpo.max_completion_length={fitting}, or {wider}")


def _completion(config: TrainConfig) -> int | None:
    value = grpo_value(config.grpo, "max_completion_length")
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
