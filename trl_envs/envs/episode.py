"""The record of one played episode: what every environment builds, and all that a reward term reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class Event:
    """One tool call and what came of it.

    Args:
        tool: Name of the tool.
        arguments: The arguments as the model gave them.
        result: Text returned to the model; None if the call raised.
        error: Text of the error given to the model; None if the call returned.
        reward: The environment's own reward for this step, if it gave one.
        done: Whether the episode was over after this call.
    """

    tool: str
    arguments: dict[str, Any]
    result: str | None = None
    error: str | None = None
    reward: float | None = None
    done: bool = False


@dataclass
class Episode:
    """One episode, JSON-able as it stands.

    Args:
        environment: Name of the environment in the recipe (`envs.<name>`).
        seed: Episode seed; the same for all rollouts of a group.
        events: Tool calls in order.
        done: Whether the environment said that the episode is over (the model may stop before).
        lost: Why the episode can't be scored (the session was lost); None for an episode that counts.
        facts: The game's own findings, such as `won` or `guesses`.
    """

    environment: str = ""
    seed: int | None = None
    events: list[Event] = field(default_factory=list)
    done: bool = False
    lost: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain containers, for json.dumps."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Episode:
        """The inverse of `as_dict`."""
        values = dict(data)
        values["events"] = [Event(**event) for event in values.get("events", [])]
        return cls(**values)
