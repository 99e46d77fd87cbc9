"""The token for private environment servers: only ever in an environment variable and an HTTP header."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from trl_envs.config.schema import ServerConfig

DEFAULT_VARIABLE = "HF_TOKEN"


def sends_token(server: ServerConfig) -> bool:
    """Whether sessions with the addresses of `envs.NAME.url` carry the token.

    HF_TOKEN stays here: whoever runs the server would learn it, and an address doesn't say whose it is. A variable that
    the person named for the purpose goes wherever the person pointed.
    """
    return server.token_env != DEFAULT_VARIABLE


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
