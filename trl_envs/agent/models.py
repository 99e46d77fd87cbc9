"""Loading a model and its tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from trl_envs.config.model_location import TINY_RANDOM, model_location
from trl_envs.config.schema import ModelConfig
from trl_envs.errors import ConfigError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def load_tokenizer(model: ModelConfig) -> PreTrainedTokenizerBase:
    """The model's tokenizer, or the one that `model.tokenizer` names.

    Raises:
        ConfigError: It can't be loaded: unknown, gated, or no network.
    """
    from transformers import AutoTokenizer

    path = model_location(model.tokenizer or model.path)
    try:
        return AutoTokenizer.from_pretrained(path)
    except (OSError, ValueError) as error:
        raise unreachable(path, error) from error


def load_model(model: ModelConfig) -> Any:
    """What GRPOTrainer takes as its model: a location, or the model itself where there is more to do than to load it.

    That is an adapter, which is put on its base model, and `tiny-random`.

    Raises:
        ConfigError: An adapter or its base that can't be loaded.
    """
    location = model_location(model.path)
    if model.path == TINY_RANDOM:
        return _random_weights(location, model.dtype or "float32")
    if not (Path(location) / "adapter_config.json").is_file():
        return location
    from peft import AutoPeftModelForCausalLM

    try:
        return AutoPeftModelForCausalLM.from_pretrained(location, is_trainable=True, dtype=model.dtype or "float32")
    except (OSError, ValueError) as error:
        raise unreachable(location, error) from error


def _random_weights(location: str, dtype: str) -> Any:
    """A model of the configuration in a folder, with weights that are random and always the same."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(location), dtype=getattr(torch, dtype))
    made.generation_config = GenerationConfig.from_pretrained(location)
    # By this TRL names the model to vLLM, which gets the weights from the trainer.
    made.name_or_path = made.config.name_or_path = location
    return made


def unreachable(path: str, error: BaseException) -> ConfigError:
    """The error for a model that can't be loaded."""
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return ConfigError(
        f"the model {path} can't be loaded: {reason}",
        "use model=tiny (ships with trl-env) or model=/path/to/a/local/model; "
        "for a gated or private one, set HF_TOKEN to a token that may read it",
    )
