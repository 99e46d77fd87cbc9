"""Whether the Hub can be reached, asked before any library that would find out slowly is imported."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from pathlib import Path

from trl_envs.config.model_location import SHIPPED
from trl_envs.config.schema import TrainConfig

HUB_TIMEOUT_S = 10.0


def stay_offline_without_network() -> None:
    """Lets the libraries look at their cache alone if the Hub can't be reached: they would try again for a minute.

    To be called before huggingface_hub is imported, which reads the variable once.
    """
    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co")
    if os.environ.get("HF_HUB_OFFLINE"):
        return
    try:
        urllib.request.urlopen(urllib.request.Request(endpoint, method="HEAD"), timeout=HUB_TIMEOUT_S).close()
    except urllib.error.HTTPError:
        # An answer, if not a friendly one.
        return
    except (OSError, ValueError):
        os.environ["HF_HUB_OFFLINE"] = "1"


def needs_hub(config: TrainConfig) -> bool:
    """Whether the model or its tokenizer isn't a folder of this machine."""
    paths = [config.model.path, config.model.tokenizer or config.model.path]
    return any(path not in SHIPPED and not Path(path).is_dir() for path in paths)
