"""The share of a GPU that vLLM takes inside the trainer (launch=colocate)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

GIB = 1024**3
# What TRL's default leaves to vLLM, and what the published runs of the recipes worked with on 80 GB.
DEFAULT_SHARE = 0.3
# CUDA's own context, graphs and the activations of one batch of prefills (max_num_batched_tokens=4096 in TRL 1.16).
_BESIDE_BYTES = 2 * GIB
# vLLM computes in 16 bits unless the checkpoint forbids it.
_BYTES_A_NUMBER = 2


def memory_share(
    settings: Mapping[str, Any] | None, length_tokens: int | None, episodes: int, memory_gib: float | None
) -> float | None:
    """The share of the GPU's memory for vLLM: enough for all episodes, but no more than TRL's default if that will do.

    It is never less than the weights and one sequence of full length take, without which vLLM doesn't start.

    Args:
        settings: The model's config.json.
        length_tokens: The longest sequence.
        episodes: Episodes that one process generates at once.
        memory_gib: All memory of the GPU.

    Returns:
        From 0 to 1, in steps of 0.05; None if something isn't known, or the model is no plain decoder.
    """
    weights, a_token = _weights_bytes(settings), _token_bytes(settings)
    if weights is None or a_token is None or length_tokens is None or not memory_gib:
        return None
    # Episodes grow: on average half of their length is in the cache.
    tokens = max(length_tokens, episodes * length_tokens // 2)
    share, least = (
        (weights + a_token * count + _BESIDE_BYTES) / (memory_gib * GIB) for count in (tokens, length_tokens)
    )
    return min(_rounded_up(max(least, min(share, DEFAULT_SHARE))), 0.95)


def _rounded_up(share: float) -> float:
    return round(math.ceil(share * 20 - 1e-9) / 20, 2)


def _numbers(settings: Mapping[str, Any] | None, *names: str) -> list[int] | None:
    values = [settings.get(name) for name in names] if settings is not None else [None]
    return [int(value) for value in values] if all(isinstance(v, int) and v > 0 for v in values) else None  # type: ignore[arg-type]


def _token_bytes(settings: Mapping[str, Any] | None) -> int | None:
    """Bytes that one token takes in the KV cache."""
    found = _numbers(settings, "num_hidden_layers", "num_attention_heads", "hidden_size")
    if found is None or settings is None:
        return None
    layers, heads, hidden = found
    key_heads = settings.get("num_key_value_heads") or heads
    return int(2 * layers * key_heads * (settings.get("head_dim") or hidden // heads) * _BYTES_A_NUMBER)


def _weights_bytes(settings: Mapping[str, Any] | None) -> int | None:
    """Bytes of a plain decoder's weights; None for a mixture of experts or anything else."""
    names = ("num_hidden_layers", "num_attention_heads", "hidden_size", "intermediate_size", "vocab_size")
    found = _numbers(settings, *names)
    if found is None or settings is None or any("expert" in name for name in settings):
        return None
    layers, heads, hidden, inner, words = found
    width = settings.get("head_dim") or hidden // heads
    key_heads = settings.get("num_key_value_heads") or heads
    attention = hidden * width * (2 * heads + 2 * key_heads)
    embeddings = words * hidden * (1 if settings.get("tie_word_embeddings") else 2)
    return int((layers * (attention + 3 * hidden * inner) + embeddings) * _BYTES_A_NUMBER)
