"""Generating turns with transformers, many at once, with the settings by which GRPOTrainer samples (TRL 1.16)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from transformers import AutoModelForCausalLM, GenerationConfig

from trl_envs.agent.models import load_model, unreachable
from trl_envs.config.schema import ModelConfig
from trl_envs.evaluate.sampling import Sampling

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def load_generating_model(model: ModelConfig, device: str) -> PreTrainedModel:
    """The model, ready to generate; an adapter on its base.

    Args:
        model: Which one; without a `dtype` it is bfloat16 on a GPU and float32 elsewhere, as in training.
        device: cpu, mps or cuda.

    Raises:
        ConfigError: It can't be loaded.
    """
    loaded = load_model(model)
    if isinstance(loaded, str):
        dtype = model.dtype or ("bfloat16" if device == "cuda" else "float32")
        try:
            loaded = AutoModelForCausalLM.from_pretrained(loaded, dtype=dtype)
        except (OSError, ValueError) as error:
            raise unreachable(model.path, error) from error
    return loaded.to(device).eval()


class Generator:
    """Continues many token sequences at once.

    Args:
        model: In eval mode, on its device.
        tokenizer: Its tokenizer, with a pad token.
        sampling: How tokens are chosen; the draws are from torch's global generator.
    """

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, sampling: Sampling) -> None:
        self._model = model
        self._pad_id: int = tokenizer.pad_token_id
        declared = model.generation_config.eos_token_id
        ends = [declared] if isinstance(declared, int) else list(declared or [])
        # Each end that the model declares ends a turn, and so does the tokenizer's.
        self._end_ids = ends if tokenizer.eos_token_id in ends else [tokenizer.eos_token_id, *ends]
        self._arguments = {
            "pad_token_id": self._pad_id,
            "bos_token_id": tokenizer.bos_token_id,
            "eos_token_id": self._end_ids,
            **sampling.as_arguments(),
        }

    @property
    def context_length(self) -> int:
        """Tokens that the model can look back on."""
        config = self._model.config.get_text_config()
        return int(config.max_position_embeddings)

    def turns(self, prefixes: Sequence[Sequence[int]], max_new_tokens: Sequence[int]) -> list[list[int]]:
        """The next turn of each sequence, its end token included unless it was cut off.

        Args:
            prefixes: Token ids, each sequence as long as it is.
            max_new_tokens: How many tokens each may get, 1 or more.
        """
        # Padded on the left, so that all go on at the same place.
        longest = max(len(prefix) for prefix in prefixes)
        ids = [[self._pad_id] * (longest - len(prefix)) + list(prefix) for prefix in prefixes]
        mask = [[0] * (longest - len(prefix)) + [1] * len(prefix) for prefix in prefixes]
        config = GenerationConfig(**self._arguments, max_new_tokens=max(max_new_tokens), disable_compile=True)
        with torch.no_grad():
            whole = self._model.generate(
                input_ids=torch.tensor(ids, device=self._model.device),
                attention_mask=torch.tensor(mask, device=self._model.device),
                generation_config=config,
            )
        new = whole[:, longest:].tolist()
        return [self._until_end(turn)[:limit] for turn, limit in zip(new, max_new_tokens, strict=True)]

    def _until_end(self, turn: list[int]) -> list[int]:
        """The turn without the padding behind its first end token."""
        for index, token in enumerate(turn):
            if token in self._end_ids:
                return turn[: index + 1]
        return turn
