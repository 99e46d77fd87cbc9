"""The sizes of a language model, from its config.json alone. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Families whose config says less than their code: biases on the projections of query, key and value; and a norm on
# each head's query and key (transformers 5, modeling_qwen2.py, modeling_qwen3.py).
_QKV_BIAS = ("qwen2", "qwen2_moe")
_HEAD_NORM = ("qwen3", "qwen3_moe")


@dataclass(frozen=True)
class ModelShape:
    """A decoder of the usual kind: attention with grouped heads, a gated MLP, or several of them as experts.

    Args:
        parameters: All weights.
        hidden: Width of the residual stream.
        layers: Decoder layers.
        heads: Query heads.
        kv_heads: Key and value heads.
        head_dim: Width of a head.
        intermediate: Width of the MLP; of all that a token passes through, for a mixture of experts.
        vocabulary: Rows of the embedding.
        lora_width: Inputs and outputs of all linear layers together: an adapter has so many weights a rank.
    """

    parameters: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    lora_width: int

    @property
    def kv_values(self) -> int:
        """Numbers that the cache holds of one token."""
        return 2 * self.layers * self.kv_heads * self.head_dim


def shape_of(config: Mapping[str, Any], parameters: int | None = None) -> ModelShape | None:
    """The shape that a config.json describes; None for a model of another build.

    Args:
        config: config.json of the text model.
        parameters: Its number of weights, if it is known from elsewhere.
    """
    names = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "intermediate_size")
    sizes = [config.get(name) for name in names]
    if not all(isinstance(size, int) and size > 0 for size in sizes):
        return None
    hidden, layers, heads, vocabulary, intermediate = (int(size) for size in sizes)  # type: ignore[arg-type]
    kv_heads = int(config.get("num_key_value_heads") or heads)
    head_dim = int(config.get("head_dim") or hidden // heads)
    experts, active, width = _experts(config, intermediate)
    query, key_value = heads * head_dim, kv_heads * head_dim
    attention = 2 * hidden * query + 2 * hidden * key_value
    if config.get("model_type") in _QKV_BIAS or config.get("attention_bias"):
        attention += query + 2 * key_value
    norms = 2 * hidden + (2 * head_dim if config.get("model_type") in _HEAD_NORM else 0)
    mlp = experts * 3 * hidden * width + (experts * hidden if experts > 1 else 0)
    embeddings = vocabulary * hidden * (1 if config.get("tie_word_embeddings", True) else 2)
    counted = layers * (attention + norms + mlp) + hidden + embeddings
    a_layer = 2 * (hidden + query) + 2 * (hidden + key_value) + experts * 3 * (hidden + width)
    return ModelShape(
        parameters or counted,
        hidden,
        layers,
        heads,
        kv_heads,
        head_dim,
        active * width,
        vocabulary,
        layers * a_layer,
    )


def _experts(config: Mapping[str, Any], intermediate: int) -> tuple[int, int, int]:
    """MLPs in a layer, how many of them a token passes through, and the width of one."""
    experts = config.get("num_experts") or config.get("num_local_experts") or 1
    active = config.get("num_experts_per_tok") or 1
    return int(experts), int(active) if experts > 1 else 1, int(config.get("moe_intermediate_size") or intermediate)
