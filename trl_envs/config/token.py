"""The token for private environment servers: only ever in an environment variable and an HTTP header."""

from __future__ import annotations

import os
from collections.abc import Sequence
from urllib.parse import urlsplit

from trl_envs.config.schema import ServerConfig

DEFAULT_VARIABLE = "HF_TOKEN"


def sends_token(server: ServerConfig, urls: Sequence[str]) -> bool:
    """Whether sessions with these URLs carry the token.

    A Hub token goes to Spaces only (https, *.hf.space): anybody else's server would learn it. A variable that the
    person named for the purpose goes wherever the person pointed.
    """
    if server.token_env != DEFAULT_VARIABLE:
        return True
    parts = [urlsplit(url) for url in urls]
    return all(part.scheme == "https" and (part.hostname or "").endswith(".hf.space") for part in parts)


def token_for(server: ServerConfig) -> str | None:
    """The token that the variable `server.token_env` holds; None if it holds none."""
    return os.environ.get(server.token_env) or None
