"""What the embedded servers share: an OpenEnv app whose number of sessions comes from the environment."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from trl_envs.errors import ConfigError
from trl_envs.rollout.openenv_core import create_fastapi_app

if TYPE_CHECKING:
    from fastapi import FastAPI

SESSIONS_VARIABLE = "MAX_CONCURRENT_ENVS"
# The official environment folders of OpenEnv default to the same number.
DEFAULT_SESSIONS = 8


def build_app(game: Callable[[], Any], action: type[Any], observation: type[Any], name: str) -> FastAPI:
    """An app that serves one game over HTTP and WebSocket.

    Made with `create_fastapi_app`, since `create_app` turns to gradio when ENABLE_WEB_INTERFACE is set.

    Args:
        game: Makes the server side of one session.
        action: Its pydantic model of an action.
        observation: Its pydantic model of an observation.
        name: Public name of the environment.

    Raises:
        ConfigError: MAX_CONCURRENT_ENVS isn't a positive whole number.
    """
    app: FastAPI = create_fastapi_app(
        game, action, observation, max_concurrent_envs=sessions_from_environment(), env_name=name
    )
    return app


def sessions_from_environment() -> int:
    """How many sessions the server may hold at a time, from MAX_CONCURRENT_ENVS.

    Raises:
        ConfigError: It isn't a positive whole number.
    """
    text = os.environ.get(SESSIONS_VARIABLE, str(DEFAULT_SESSIONS))
    try:
        sessions = int(text)
    except ValueError:
        sessions = 0
    if sessions < 1:
        raise ConfigError(
            f"{SESSIONS_VARIABLE} must be a positive whole number, got {text!r}",
            f"export {SESSIONS_VARIABLE}={DEFAULT_SESSIONS}, or leave it unset",
        )
    return sessions
