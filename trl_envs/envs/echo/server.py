"""The embedded echo server, with the typed protocol: `uvicorn trl_envs.envs.echo.server:app`.

Fields and reward are those of OpenEnv's typed echo_env (message in; echoed_message and message_length out).
"""

from __future__ import annotations

import uuid
from typing import Any

from pydantic import Field

from trl_envs.envs.serving import build_app
from trl_envs.rollout.openenv_core import Action, Environment, Observation, State

REWARD_PER_CHARACTER = 0.1


class EchoAction(Action):  # type: ignore[misc]
    """A message to be echoed."""

    message: str = Field(..., min_length=1, description="Message to echo back")


class EchoObservation(Observation):  # type: ignore[misc]
    """The message that came back and its length in characters."""

    echoed_message: str = Field(..., description="The echoed message")
    message_length: int = Field(default=0, ge=0, description="Length of the echoed message")


class EchoServer(Environment):  # type: ignore[misc]
    """One session: every step is answered with its own message, and no step is the last."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._state = State(episode_id=str(uuid.uuid4()), step_count=0)

    def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> EchoObservation:
        """Starts counting anew; echo has nothing that a seed could decide."""
        self._state = State(episode_id=episode_id or str(uuid.uuid4()), step_count=0)
        return EchoObservation(echoed_message="Echo environment ready!", reward=0.0)

    def step(self, action: EchoAction, timeout_s: float | None = None, **_: Any) -> EchoObservation:
        """Sends the message back, with a reward of 0.1 a character."""
        self._state.step_count += 1
        length = len(action.message)
        return EchoObservation(
            echoed_message=action.message, message_length=length, reward=REWARD_PER_CHARACTER * length
        )

    @property
    def state(self) -> State:
        """Episode id and number of steps."""
        return self._state


app = build_app(EchoServer, EchoAction, EchoObservation, "echo_env")
