"""The episode loop: many episodes at once, token for token as GRPOTrainer plays them (TRL 1.16).

A turn is generated for all live episodes together; then each one's tools are called, and the results' tokens are put
behind its own. An episode ends when the model calls no tool, when its tokens are used up (those of tool results count)
or after so many rounds of tool calls. Unlike in training, an episode that is lost isn't played on: nobody scores it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from trl_envs.agent.environments import episode_of
from trl_envs.envs.episode import Episode
from trl_envs.evaluate.tools import Message, bound_tools, call_tools

if TYPE_CHECKING:
    # It takes seconds to load, and scripted players have no use for it.
    from trl_envs.agent.chat import ChatFormat

End = Literal["no tool call", "token budget", "iteration limit", "lost"]


class TurnSource(Protocol):
    """What continues token sequences; `Generator` does it with transformers."""

    @property
    def context_length(self) -> int:
        """Tokens that the model can look back on."""

    def turns(self, prefixes: Sequence[Sequence[int]], max_new_tokens: Sequence[int]) -> list[list[int]]:
        """The next turn of each sequence, of so many tokens at most."""


@dataclass(frozen=True)
class Limits:
    """When an episode ends that the model doesn't end; names as in GRPOConfig.

    Args:
        max_completion_length: Tokens of the whole episode behind the prompt, tool results included.
        max_tool_calling_iterations: Rounds of tool calls; None is no limit.
    """

    max_completion_length: int
    max_tool_calling_iterations: int | None = None


@dataclass
class Rollout:
    """One episode as the model sees it; the game's side is `episode`.

    Args:
        row: Its row of the data set.
        environment: Where it is played.
        prompt: The messages before the model's first turn, with the first observation.
        prompt_ids: The same as tokens, with the tools.
        completion: Turns and tool results.
        completion_ids: The same as tokens; of the last calls no results if there was no room for them.
        calls: Tool calls that the last turn asks for.
        tool_calls: Tool calls made.
        tool_failures: Those of them that ended in an error.
        rounds: Times that tools were called and the model went on.
        end: Why it ended; None while it goes on.
        reported_tokens: Tokens behind the prompt as a server counts them that gives no ids.
    """

    row: Mapping[str, Any]
    environment: Any
    tools: dict[str, Callable[..., Any]]
    prompt: list[Message] = field(default_factory=list)
    prompt_ids: list[int] = field(default_factory=list)
    completion: list[Message] = field(default_factory=list)
    completion_ids: list[int] = field(default_factory=list)
    calls: list[Message] = field(default_factory=list)
    tool_calls: int = 0
    tool_failures: int = 0
    rounds: int = 0
    end: End | None = None
    reported_tokens: int | None = None

    @property
    def tokens(self) -> int | None:
        """Tokens behind the prompt, tool results included; None of a player without any."""
        return len(self.completion_ids) if self.completion_ids else self.reported_tokens

    @property
    def episode(self) -> Episode:
        """The environment's record; replaced when the environment is reset."""
        return episode_of(self.environment)

    @property
    def turns(self) -> int:
        """Times that the model spoke."""
        return sum(message["role"] == "assistant" for message in self.completion)


@dataclass(frozen=True)
class Player:
    """What plays: a model's turns, the form of its conversations, and its limits.

    Args:
        source: Generates turns.
        chat: Renders and reads them.
        limits: When to end.
        workers: Threads in which environments of a batch are reset and their tools called.
        loop: Runs async tools.
    """

    source: TurnSource
    chat: ChatFormat
    limits: Limits
    workers: Executor
    loop: asyncio.AbstractEventLoop

    def play(self, environments: Sequence[Any], rows: Sequence[Mapping[str, Any]]) -> list[Rollout]:
        """Plays one episode in each environment; the sessions are left open, for scoring.

        Args:
            environments: Instances of a factory's class, each its own.
            rows: Rows as `build_rows` makes them, one an environment.
        """
        rollouts = [Rollout(row, one, bound_tools(one)) for one, row in zip(environments, rows, strict=True)]
        for rollout, observation in zip(rollouts, self.workers.map(reset, rollouts), strict=True):
            self._begin(rollout, observation)
        self._speak([rollout for rollout in rollouts if rollout.end is None])
        while live := [rollout for rollout in rollouts if rollout.end is None]:
            self._act(live)
            self._speak([rollout for rollout in live if rollout.end is None])
        return rollouts

    def _begin(self, rollout: Rollout, observation: Any) -> None:
        """Renders the prompt, with the first observation behind the last message."""
        rollout.prompt = first_messages(rollout.row, observation)
        rollout.prompt_ids = self.chat.prompt_ids(rollout.prompt, list(rollout.tools.values()))
        if rollout.episode.lost is not None:
            rollout.end = "lost"

    def _speak(self, rollouts: Sequence[Rollout]) -> None:
        """Generates the next turn of each, and ends those that call no tool or have no token left."""
        budget = self.limits.max_completion_length
        for rollout in rollouts:
            if len(rollout.completion_ids) >= budget:
                rollout.end = "token budget"
        speaking = [rollout for rollout in rollouts if rollout.end is None]
        if not speaking:
            return
        prefixes = [rollout.prompt_ids + rollout.completion_ids for rollout in speaking]
        left = [budget - len(rollout.completion_ids) for rollout in speaking]
        for rollout, prefix, turn in zip(speaking, prefixes, self.source.turns(prefixes, left), strict=True):
            message = self.chat.parse(turn, prefix, list(rollout.tools.values()))
            rollout.completion_ids += turn
            rollout.completion.append(message)
            rollout.calls = message.get("tool_calls") or []
            if not rollout.calls:
                cut_off = len(rollout.completion_ids) >= budget and turn[-1] != self.chat.tokenizer.eos_token_id
                rollout.end = "token budget" if cut_off else "no tool call"

    def _act(self, rollouts: Sequence[Rollout]) -> None:
        """Makes the calls of the last turn of each and appends their results, as far as the limits allow."""
        limit = self.limits.max_tool_calling_iterations
        for rollout in rollouts:
            if limit is not None and rollout.rounds >= limit:
                rollout.end = "iteration limit"
        acting = [rollout for rollout in rollouts if rollout.end is None]
        # Only the environments work in threads: a tokenizer isn't made for several.
        made = self.workers.map(lambda rollout: call_tools(rollout.calls, rollout.tools, self.loop), acting)
        for rollout, (results, failures) in zip(acting, made, strict=True):
            rollout.tool_calls += len(results)
            rollout.tool_failures += failures
            rollout.rounds += 1
            self._append(rollout, results)

    def _append(self, rollout: Rollout, results: list[Message]) -> None:
        """Puts results behind the turn that called for them, or ends an episode that has no room for them."""
        if rollout.episode.lost is not None:
            rollout.end = "lost"
            return
        completion_ids = rollout.completion_ids + self.chat.result_ids(results)
        too_long = len(completion_ids) > self.limits.max_completion_length
        if too_long or len(rollout.prompt_ids) + len(completion_ids) >= self.source.context_length:
            # The results are dropped, though the game has seen the calls: that is how TRL does it.
            rollout.end = "token budget"
            return
        rollout.completion_ids = completion_ids
        rollout.completion += results


def first_messages(row: Mapping[str, Any], observation: Any) -> list[Message]:
    """A row's prompt with what `reset` returned behind its last message."""
    *before, last = row["prompt"]
    if observation is not None:
        last = {**last, "content": last["content"] + observation}
    return [*before, last]


def reset(rollout: Rollout) -> Any:
    """Starts the episode; TRL keeps the column by which it chooses the environment to itself."""
    return rollout.environment.reset(**{name: value for name, value in rollout.row.items() if name != "environment"})
