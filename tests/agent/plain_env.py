"""Environment classes and reward functions as TRL's own guide writes them, for the tests."""

from __future__ import annotations

from typing import Any

NOT_CALLABLE = 3


class Plain:
    """No base class, no constructor, attributes `reward` and `done`."""

    def reset(self, **kwargs: Any) -> str | None:
        self.reward = 0.0
        self.done = False
        self.row = kwargs
        return "Count to three."

    def count(self, number: int) -> str:
        """
        Count.

        Args:
            number: The next number.
        """
        if self.done:
            raise ValueError("Game over.")
        self.reward += number
        self.done = number == 3
        return f"You said {number}."


class Configured(Plain):
    def __init__(self, start: int, step: int = 1) -> None:
        self.start = start
        self.step = step

    def reset(self, seed: int) -> None:  # type: ignore[override]
        super().reset()
        self.seed = seed

    async def wait(self) -> str:
        """Wait."""
        return "waited"

    def get_reward(self) -> float:
        return 0.5


def total(environments: list[Any], **kwargs: Any) -> list[float]:
    return [environment.reward for environment in environments]


def lengths(completions: list[Any], seed: list[int], factor: float = 1.0) -> list[float]:
    assert len(completions) == len(seed)
    return [len(completion) * factor for completion in completions]


async def later(environments: list[Any], log_extra: Any, **kwargs: Any) -> list[float | None]:
    log_extra("seen", [type(environment).__name__ for environment in environments])
    return [None for _ in environments]


def too_few(environments: list[Any], **kwargs: Any) -> list[float]:
    return []


def events(episode: Any, *, each: float = 1.0) -> float:
    return each * len(episode.events)


def broken(episode: Any) -> float:
    raise KeyError("no such fact")


def text(episode: Any) -> str:
    return "high"


def text_number(episode: Any) -> str:
    return "1.0"


def not_a_number(episode: Any) -> float:
    return float("nan")


def nothing() -> float:
    return 0.0
