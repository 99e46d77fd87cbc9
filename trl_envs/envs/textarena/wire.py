"""What travels between a textarena server and its clients, as in envs/textarena_env/models.py of OpenEnv."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from trl_envs.rollout.openenv_core import Action, Observation, State


class TextArenaMessage(BaseModel):
    """One message to the player."""

    sender_id: int
    content: str
    category: str


class TextArenaAction(Action):  # type: ignore[misc]
    """What the player says, such as `[crane]`."""

    message: str


class TextArenaObservation(Observation):  # type: ignore[misc]
    """What the player sees: `messages` holds one message whose content grows with every step."""

    prompt: str
    messages: list[TextArenaMessage] = Field(default_factory=list)
    current_player_id: int = 0
    legal_players: list[int] = Field(default_factory=list)
    info: dict[str, Any] = Field(default_factory=dict)


class TextArenaState(State):  # type: ignore[misc]
    """The game behind the scenes, Wordle's secret word included: nothing for a model to see."""

    env_id: str
    num_players: int
    max_turns: int | None = None
    turn: int = 0
    last_reward: float = 0.0
    last_info: dict[str, Any] = Field(default_factory=dict)
    raw_state: dict[str, Any] = Field(default_factory=dict)
