"""Generating turns with vLLM in this process: the same token sequences as with transformers, faster on a GPU."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from vllm import LLM, SamplingParams

from trl_envs.agent.models import unreachable
from trl_envs.config.model_location import model_location
from trl_envs.config.schema import ModelConfig
from trl_envs.evaluate.sampling import Sampling

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def load_engine(model: ModelConfig, seed: int) -> LLM:
    """The model in vLLM.

    Args:
        model: Which one; no adapter.
        seed: Of the engine.

    Raises:
        ConfigError: It can't be loaded.
    """
    location = model_location(model.path)
    tokenizer = model_location(model.tokenizer) if model.tokenizer else None
    try:
        return LLM(model=location, tokenizer=tokenizer, dtype=model.dtype or "auto", seed=seed)
    except (OSError, ValueError) as error:
        raise unreachable(model.path, error) from error


class VllmGenerator:
    """Continues many token sequences at once; a `TurnSource`.

    Args:
        engine: The model.
        tokenizer: Its tokenizer.
        sampling: How tokens are chosen.
        seed: Each turn's draws follow from it and from how many there were before.
    """

    def __init__(self, engine: LLM, tokenizer: PreTrainedTokenizerBase, sampling: Sampling, seed: int) -> None:
        self._engine = engine
        self._end_id = tokenizer.eos_token_id
        self._sampling = sampling
        self._seed = seed
        self._numbers = count()

    @property
    def context_length(self) -> int:
        """Tokens that the model can look back on."""
        return int(self._engine.llm_engine.model_config.max_model_len)

    def turns(self, prefixes: Sequence[Sequence[int]], max_new_tokens: Sequence[int]) -> list[list[int]]:
        """The next turn of each sequence, its end token included unless it was cut off.

        Args:
            prefixes: Token ids, each sequence as long as it is.
            max_new_tokens: How many tokens each may get, 1 or more.
        """
        asked = [SamplingParams(**self._parameters(), max_tokens=limit) for limit in max_new_tokens]
        prompts = [{"prompt_token_ids": list(prefix)} for prefix in prefixes]
        made = self._engine.generate(prompts, asked, use_tqdm=False)
        return [list(one.outputs[0].token_ids) for one in made]

    def _parameters(self) -> dict[str, Any]:
        sampling = self._sampling
        drawn = {"top_p": sampling.top_p, "top_k": sampling.top_k, "min_p": sampling.min_p or 0.0}
        return {
            "temperature": sampling.temperature,
            "repetition_penalty": sampling.repetition_penalty,
            **(drawn if sampling.temperature > 0 else {}),
            # Each end that the model declares ends a turn; vLLM knows those, and this is the tokenizer's.
            "stop_token_ids": [self._end_id],
            "seed": random.Random(f"{self._seed}/{next(self._numbers)}").getrandbits(31),
            **sampling.generation_kwargs,
        }
