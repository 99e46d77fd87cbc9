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


def sends_token_to_space(private: bool, address: str) -> bool:
    """Whether sessions with a Space carry the token: a public one needs none, and its owner would learn it.

    Args:
        private: What the Hub says of the Space.
        address: The Space's address as the Hub gave it. The token goes over no unencrypted network.
    """
    parts = urlsplit(address)
    return private and (parts.scheme == "https" or (parts.hostname or "") in ("127.0.0.1", "localhost", "::1"))


def token_for(server: ServerConfig) -> str | None:
    """The token that the variable `server.token_env` holds; None if it holds none."""
    return os.environ.get(server.token_env) or None
