"""How much GPU memory a training process needs, roughly, and which overrides make it less. Pure.

The estimate counts what is large and known: weights, gradients, the optimizer's states, activations, the cache of keys
and values, vLLM's share. It doesn't know of fragmentation, of kernels' workspaces or of what else runs on the GPU, for
which OVERHEAD_GIB stands. Logits are left out: TRL 1.16 never holds them whole (add_fused_lm_head).
"""

from __future__ import annotations

from dataclasses import dataclass

from trl_envs.config.grpo_fields import grpo_value
from trl_envs.config.schema import TrainConfig
from trl_envs.preflight.model_shape import ModelShape

GIB = 2**30
# The CUDA context, libraries and fragmentation. A rule of thumb.
OVERHEAD_GIB = 1.5
# What vLLM takes of its share for itself: activations of 4096 tokens at a time, CUDA graphs. A rule of thumb.
VLLM_OVERHEAD_GIB = 1.0
DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
# Bytes of an optimizer's states for each trained weight, where they aren't twice its own size as Adam's are.
_STATE_BYTES = {"8bit": 2.0, "adafactor": 0.1, "sgd": 0.0}
# Launches that split a model over GPUs, of which this file knows nothing.
SHARDED = ("zero2", "zero3", "fsdp1", "fsdp2")


@dataclass(frozen=True)
class Lengths:
    """Tokens of an episode.

    Args:
        prompt: Before the model's first turn.
        completion: Behind it, results included.
    """

    prompt: int
    completion: int

    @property
    def together(self) -> int:
        """Tokens of the whole."""
        return self.prompt + self.completion


@dataclass(frozen=True)
class Needs:
    """GiB of one training process by what they are for, and what they come to.

    Args:
        weights: Of the trained model; with an adapter, and with a reference model if there is one.
        gradients: Of what is trained.
        optimizer: States of the optimizer.
        activations: While one micro-batch is trained on.
        cache: Keys and values of all episodes that are played at once with transformers; 0 with vLLM.
        vllm: vLLM's share of the GPU, if it runs in the trainer.
    """

    weights: float
    gradients: float
    optimizer: float
    activations: float
    cache: float
    vllm: float

    @property
    def peak(self) -> float:
        """GiB at the most: playing and training take turns, all else stays."""
        kept = self.weights + self.gradients + self.optimizer + self.vllm + OVERHEAD_GIB
        return kept + max(self.activations, self.cache)

    def parts(self) -> dict[str, float]:
        """What there is of it, for a table."""
        named = {
            "weights": self.weights,
            "gradients": self.gradients,
            "optimizer states": self.optimizer,
            "activations of a micro-batch": self.activations,
            "keys and values while playing": self.cache,
            "vLLM's share": self.vllm,
            "CUDA and fragmentation": OVERHEAD_GIB,
        }
        return {name: gib for name, gib in named.items() if gib > 0}


def estimate(
    config: TrainConfig, shape: ModelShape, lengths: Lengths, *, mode: str, at_once: int, gpu_gib: float
) -> Needs:
    """What a training process needs on its GPU.

    Args:
        config: The run's config.
        shape: Of the model.
        lengths: Of the episodes.
        mode: single, colocate or server.
        at_once: Episodes that the process plays at once.
        gpu_gib: The GPU's memory.
    """
    size, mixed = _weight_bytes(config), _weight_bytes(config) == 4 and _computes_in_16_bits(config)
    lora = config.model.lora
    adapter = shape.lora_width * lora.rank if lora else 0
    # peft keeps adapters in float32, whatever the model's dtype.
    trained, trained_size = (adapter, 4) if lora else (shape.parameters, size)
    # Under autocast each weight has a copy in 16 bits; a reference model, with beta, is a second model.
    copies = shape.parameters * (2 if mixed else 0)
    reference = shape.parameters * size if grpo_value(config.grpo, "beta") and not lora else 0
    batch = int(grpo_value(config.grpo, "per_device_train_batch_size"))
    computed = 2 if mixed else size
    cache = at_once * lengths.together * shape.kv_values * computed if mode == "single" else 0
    share = float(grpo_value(config.grpo, "vllm_gpu_memory_utilization")) * gpu_gib if mode == "colocate" else 0.0
    return Needs(
        weights=(shape.parameters * size + adapter * 4 + copies + reference) / GIB,
        gradients=trained * trained_size / GIB,
        optimizer=trained * _state_bytes(config, trained_size) / GIB,
        activations=batch * lengths.together * _activation_bytes(config, shape, size, computed) / GIB,
        cache=cache / GIB,
        vllm=share,
    )


def vllm_needs_gib(shape: ModelShape, length: int) -> float:
    """GiB that vLLM's share must hold at the least: its own weights, and the cache of one longest sequence.

    Args:
        shape: Of the model, which vLLM loads in 16 bits.
        length: Tokens of the longest sequence that it must take.
    """
    return 2 * (shape.parameters + length * shape.kv_values) / GIB + VLLM_OVERHEAD_GIB


def checkpoints(config: TrainConfig) -> bool:
    """Whether activations are computed again instead of kept; TRL's default is that they are."""
    newer = config.grpo.get("activation_checkpointing")
    return bool(grpo_value(config.grpo, "gradient_checkpointing") if newer is None else newer)


def _activation_bytes(config: TrainConfig, shape: ModelShape, residual: int, computed: int) -> float:
    """Bytes kept of one token until the backward pass.

    Of a layer: its input and the input of its MLP (residual stream), both after their norms, query, key, value and the
    attention's output before and after what is done to them, and four times the MLP's width. With an adapter the input
    of each linear layer once more, in float32. With checkpointing, one such layer and the inputs of the others.
    """
    attention = 2 * (2 * shape.heads + 2 * shape.kv_heads) * shape.head_dim
    layer = 2 * residual * shape.hidden
    layer += computed * (2 * shape.hidden + attention + 4 * shape.intermediate)
    if config.model.lora is not None:
        layer += 4 * (5 * shape.hidden + shape.heads * shape.head_dim + shape.intermediate)
    if not checkpoints(config):
        return shape.layers * layer
    return shape.layers * residual * shape.hidden + layer


def _weight_bytes(config: TrainConfig) -> int:
    """Bytes of a weight. TRL loads a model by its name as float32 unless it is told otherwise."""
    kwargs = config.grpo.get("model_init_kwargs")
    dtype = config.model.dtype or (kwargs.get("dtype") if isinstance(kwargs, dict) else None)
    return DTYPE_BYTES.get(str(dtype).removeprefix("torch."), 4)


def _computes_in_16_bits(config: TrainConfig) -> bool:
    """Whether autocast is on: bf16 unless it was turned off, which is TRL's default (base_config.py)."""
    bf16, fp16 = grpo_value(config.grpo, "bf16"), grpo_value(config.grpo, "fp16")
    return bool(fp16) or bf16 is None or bool(bf16)


def _state_bytes(config: TrainConfig, trained_size: int) -> float:
    name = str(grpo_value(config.grpo, "optim") or "adamw_torch")
    return next((size for part, size in _STATE_BYTES.items() if part in name), 2.0 * trained_size)
