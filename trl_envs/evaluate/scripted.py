"""Scripted players in the place of a model: the same rows, tools, records and terms, and no tokens."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from itertools import count
from typing import Any

from trl_envs.agent.policies import Explain, Move, Policy
from trl_envs.envs.episode import Episode
from trl_envs.evaluate.loop import Rollout, first_messages, reset
from trl_envs.evaluate.tools import Message, bound_tools, call_tools

# Enough for any of the shipped games; an environment that never ends is left after so many calls.
LONGEST_EPISODE = 200
LONGEST_STUBBORN = 8


def do_nothing(observation: str, episode: Episode, rng: random.Random) -> Move | None:
    """Calls no tool at all."""
    return None


def stubborn(policy: Policy) -> Policy:
    """A player that makes the other one's first move again and again: what is punished has to happen once.

    Args:
        policy: Chooses the first move.
    """

    def repeat(observation: str, episode: Episode, rng: random.Random) -> Move | None:
        if not episode.events:
            return policy(observation, episode, rng)
        first = episode.events[0]
        return None if episode.done or len(episode.events) >= LONGEST_STUBBORN else (first.tool, dict(first.arguments))

    return repeat


def noisy(policy: Policy, at_random: Policy, share: float) -> Policy:
    """A player that makes some of its moves at random: it has to find back, and shows how.

    Args:
        policy: Makes the others.
        at_random: Makes these; where it has no move to make, the policy makes it.
        share: Of the moves that are made at random, 0 to 1.
    """

    def mixed(observation: str, episode: Episode, rng: random.Random) -> Move | None:
        strays = rng.random() < share
        move = policy(observation, episode, rng)
        return move if move is None or not strays else at_random(observation, episode, rng) or move

    return mixed


class ScriptedPlayer:
    """Plays by a policy, as `Player` does by a model.

    Args:
        policy: Chooses the moves.
        seed: Of its generators; each episode has one of its own, those of a group too.
        workers: Threads in which the episodes of a batch are played.
        loop: Runs async tools.
        numbers: Of the episodes in the order of playing, by which their generators differ; None counts from 0.
        explain: Gives the reasoning before each call; None gives none.
    """

    def __init__(
        self,
        policy: Policy,
        seed: int,
        workers: Executor,
        loop: asyncio.AbstractEventLoop,
        *,
        numbers: Iterator[int] | None = None,
        explain: Explain | None = None,
    ) -> None:
        self.loop = loop
        self._policy = policy
        self._explain = explain
        self._seed = seed
        self._workers = workers
        self._numbers = count() if numbers is None else numbers

    def play(self, environments: Sequence[Any], rows: Sequence[Mapping[str, Any]]) -> list[Rollout]:
        """Plays one episode in each environment; the sessions are left open, for scoring.

        Args:
            environments: Instances of a factory's class, each its own.
            rows: Rows as `build_rows` makes them, one an environment.
        """
        rollouts = [Rollout(row, one, bound_tools(one)) for one, row in zip(environments, rows, strict=True)]
        generators = [random.Random(f"{self._seed}/{next(self._numbers)}") for _ in rollouts]
        # The list makes an exception of one of them come out here.
        list(self._workers.map(self._play_one, rollouts, generators))
        return rollouts

    def _play_one(self, rollout: Rollout, rng: random.Random) -> None:
        observation = reset(rollout)
        rollout.prompt = first_messages(rollout.row, observation)
        text = "" if observation is None else str(observation)
        while rollout.end is None:
            if rollout.episode.lost is not None:
                rollout.end = "lost"
            elif rollout.rounds >= LONGEST_EPISODE:
                rollout.end = "iteration limit"
            elif (move := self._policy(text, rollout.episode, rng)) is None:
                rollout.end = "no tool call"
            else:
                thought = self._explain(text, rollout.episode, move) if self._explain is not None else ""
                text = make_move(rollout, move, self.loop, thought)


def make_move(rollout: Rollout, move: Move, loop: asyncio.AbstractEventLoop, thought: str = "") -> str:
    """Calls a tool as a model would; returns the text that it would get.

    Args:
        rollout: Takes the call and its result.
        move: Name of the tool, and its arguments.
        loop: Runs async tools.
        thought: The reasoning before the call, as of a model that thinks.
    """
    name, arguments = move
    call: Message = {"type": "function", "function": {"name": name, "arguments": arguments}}
    results, failures = call_tools([call], rollout.tools, loop)
    thinking = {"reasoning_content": thought} if thought else {}
    rollout.completion += [{"role": "assistant", "content": "", **thinking, "tool_calls": [call]}, *results]
    rollout.tool_calls += 1
    rollout.tool_failures += failures
    rollout.rounds += 1
    return str(results[0]["content"])
