"""Environment classes, reward terms and a server with something wrong about them, for the probe's tests."""

from __future__ import annotations

import itertools
from typing import Any

from trl_envs.envs.catch.server import CatchServer
from trl_envs.envs.episode import Episode
from trl_envs.envs.game import GameEnvironment, tool

_calls = itertools.count()


class Flawed:
    """A plain TRL environment of which every public method but one has a flaw."""

    def reset(self, **row: Any) -> str:
        return "Go."

    def good(self, number: int) -> str:
        """Count.

        Args:
            number: The next number.
        """
        return str(number)

    def helper(self) -> int:
        return 1

    def untyped(self, number) -> str:  # type: ignore[no-untyped-def]
        """Count.

        Args:
            number: The next number.
        """
        return str(number)

    def undescribed(self, number: int) -> str:
        """Count."""
        return str(number)

    def close(self) -> None:
        """Close."""


class Counting:
    """A plain environment without a fault, and without a server."""

    def __init__(self, start: int = 0) -> None:
        self.start = start

    def reset(self, seed: int) -> str:
        return f"Start at {self.start}."

    async def count(self, number: int) -> str:
        """Count.

        Args:
            number: The next number.
        """
        return str(self.start + number)


class Forgetful(Counting):
    """Plays another game each time, whatever the seed."""

    def reset(self, seed: int) -> str:
        return f"Game {next(_calls)}."


class Unready(Counting):
    def reset(self, seed: int) -> str:
        raise OSError("no display")


class Unbuildable(Counting):
    def __init__(self) -> None:
        raise RuntimeError("no licence")


class Toolless(GameEnvironment):
    """Nothing that the model could do."""


class EchoLess(GameEnvironment):
    def _begin(self, reply: Any) -> str:
        return ""

    @tool
    def act(self) -> str:
        """Act."""
        raise ValueError("never works")


class SeedlessServer(CatchServer):
    """Ignores the seed, as the official server does."""

    def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> Any:
        return super().reset(next(_calls), episode_id)


def fine(episode: Episode) -> float:
    return 1.0


def raising(episode: Episode) -> float:
    raise KeyError("no such fact")


def wordy(episode: Episode) -> Any:
    return "high"


def unscored(episode: Episode) -> None:
    return None


def trl_style(completions: list[Any], environments: list[Any], seed: list[int], **_: Any) -> list[float]:
    return [float(len(turns)) for turns in completions]


class Crashing:
    """A plain environment whose only tool has a bug."""

    def reset(self, **row: Any) -> str:
        return "Go."

    def press(self, number: int) -> str:
        """Press a button.

        Args:
            number: Which one.
        """
        return {"a": "b"}[str(number)]


class Unreadable(Counting):
    """A tool whose text no tokenizer takes."""

    async def count(self, number: int) -> str:
        """Count.

        Args:
            number: The next number.
        """
        return "\udc80 surrogate"


class Quitting(Counting):
    """A tool that was written for the command line."""

    async def count(self, number: int) -> str:
        """Count.

        Args:
            number: The next number.
        """
        raise SystemExit(7)


class Nameless(Counting):
    """A tool that returns an object instead of text."""

    async def count(self, number: int) -> str:
        """Count.

        Args:
            number: The next number.
        """
        return object()  # type: ignore[return-value]


def scalar(completions: list[Any], **_: Any) -> Any:
    return 1.0
