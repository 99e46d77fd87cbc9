"""Where a model is found, and what its files say of it, without loading it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trl_envs import paths
from trl_envs.errors import ConfigError

# The agent that ships, and a model of its shape, with its tokenizer and random weights.
TINY, TINY_RANDOM = "tiny", "tiny-random"
SHIPPED = (TINY, TINY_RANDOM)


def model_location(path: str) -> str:
    """What transformers loads for a `model.path`, of `tiny-random` the configuration and the tokenizer only.

    `tiny` is the agent that ships; a run directory is its final model, else its last checkpoint; anything else stays.

    Raises:
        ConfigError: A run directory without a model.
    """
    if path in SHIPPED:
        return str(paths.tiny_model_dir())
    folder = Path(path)
    if not (folder / "record.json").is_file():
        return path
    if (folder / "model").is_dir():
        return str(folder / "model")
    checkpoints = sorted(folder.glob("checkpoint-*"), key=_step)
    if not checkpoints:
        raise ConfigError(f"the run {folder} has neither a final model nor a checkpoint", "name another model=")
    return str(checkpoints[-1])


def _step(checkpoint: Path) -> int:
    number = re.search(r"\d+$", checkpoint.name)
    return int(number[0]) if number else -1


def base_model(location: str) -> str:
    """The model below an adapter, as its adapter_config.json names it; any other model is its own base.

    A vLLM server always serves the base: the trainer merges the adapter into the weights that it sends (TRL 1.16,
    trl/generation/vllm_generation.py).

    Args:
        location: What `model_location` gave.
    """
    adapter = _read_json(Path(location) / "adapter_config.json")
    base = adapter.get("base_model_name_or_path") if adapter else None
    return base if isinstance(base, str) else location


def model_settings(location: str) -> Mapping[str, Any] | None:
    """A model's config.json, from its folder or from the Hub's cache on this machine; None if it isn't here.

    Args:
        location: What `model_location` or `base_model` gave.
    """
    folder = Path(location)
    if not folder.is_dir():
        cached = _cache_folder() / f"models--{location.replace('/', '--')}"
        try:
            folder = cached / "snapshots" / (cached / "refs" / "main").read_text(encoding="utf-8").strip()
        except (OSError, ValueError):
            return None
    return _read_json(folder / "config.json")


def _cache_folder() -> Path:
    """Where huggingface_hub keeps what it has downloaded, by its own variables."""
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")) / "huggingface"
    return Path(os.environ.get("HF_HUB_CACHE") or Path(home) / "hub").expanduser()


def _read_json(file: Path) -> dict[str, Any] | None:
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None
