"""Episodes of a model behind an OpenAI-compatible endpoint: the same messages, tools, limits and rules, over HTTP.

The endpoint renders the conversation with its own chat template and reads tool calls with its own parser, so no tokens
are known here; how many there are it says itself (`usage`), and by that the limits are kept as in training.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import count
from typing import Any

from transformers.utils import get_json_schema

from trl_envs.evaluate.endpoint_client import Endpoint, EndpointClient
from trl_envs.evaluate.loop import Limits, Rollout, first_messages, reset
from trl_envs.evaluate.sampling import Sampling
from trl_envs.evaluate.tools import Message, bound_tools, call_tools

__all__ = ["Endpoint", "EndpointPlayer", "read_turn"]

# An endpoint that counts no tokens sets no other limit to an episode that goes on and on.
LONGEST_EPISODE = 200
# Where thoughts are kept, by the names that servers give them; sent back as they came.
THOUGHTS = ("reasoning_content", "reasoning")
# What of a turn belongs to the conversation; servers add notes that they don't take back.
SENT_BACK = ("role", "content", "tool_calls", *THOUGHTS)


@dataclass
class _Talk:
    """One episode's conversation with the endpoint.

    Args:
        rollout: The episode.
        tools: Schemas of its tools.
        seed: Of its sampling.
        messages: As the endpoint knows them.
        opening_tokens: Of the prompt with the tools, once the endpoint has counted them.
        used: Tokens behind that up to the end of the last turn.
    """

    rollout: Rollout
    tools: list[Message]
    seed: int
    messages: list[Message]
    opening_tokens: int | None = None
    used: int = 0


class EndpointPlayer:
    """Plays by an endpoint's answers, as `Player` does by tokens; episodes of a batch at the same time.

    Args:
        endpoint: Where the model is.
        sampling: How tokens are chosen.
        limits: When to end; tokens are those that the endpoint counts.
        template_kwargs: `grpo.chat_template_kwargs`.
        seed: Of sampling; each episode has its own.
        workers: Threads in which the episodes of a batch are played.
        loop: Runs async tools.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        sampling: Sampling,
        limits: Limits,
        template_kwargs: Mapping[str, Any],
        seed: int,
        workers: Executor,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.loop = loop
        self._client = EndpointClient(endpoint, sampling, template_kwargs)
        self._plain = endpoint.plain
        self._limits = limits
        self._seed = seed
        self._workers = workers
        self._numbers = count()

    def play(self, environments: Sequence[Any], rows: Sequence[Mapping[str, Any]]) -> list[Rollout]:
        """Plays one episode in each environment; the sessions are left open, for scoring.

        Args:
            environments: Instances of a factory's class, each its own.
            rows: Rows as `build_rows` makes them, one an environment.

        Raises:
            ConfigError: The endpoint has no such model, or refuses the key or the request.
            TrainingFailed: It can't be reached, or fails.
        """
        rollouts = [Rollout(row, one, bound_tools(one)) for one, row in zip(environments, rows, strict=True)]
        seeds = [random.Random(f"{self._seed}/{next(self._numbers)}").getrandbits(31) for _ in rollouts]
        # The list makes an exception of one of them come out here.
        list(self._workers.map(self._play_one, rollouts, seeds))
        return rollouts

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()

    def _play_one(self, rollout: Rollout, seed: int) -> None:
        observation = reset(rollout)
        rollout.prompt = first_messages(rollout.row, observation)
        tools = [self._described(tool) for tool in rollout.tools.values()]
        talk = _Talk(rollout, tools, seed, list(rollout.prompt))
        if rollout.episode.lost is not None:
            rollout.end = "lost"
        while rollout.end is None:
            self._speak(talk)
            if rollout.end is None:
                self._act(talk)

    def _described(self, tool: Any) -> Message:
        schema: Message = get_json_schema(tool)
        if self._plain:
            # Templates show the model what a tool returns; OpenAI's own API has no field for it.
            schema["function"].pop("return", None)
        return schema

    def _speak(self, talk: _Talk) -> None:
        """Asks for the next turn, and ends an episode that calls no tool or whose tokens are used up."""
        rollout, budget = talk.rollout, self._limits.max_completion_length
        answer = self._client.answer(talk.messages, talk.tools, budget - talk.used, talk.seed)
        before = self._counted(talk, answer.prompt_tokens)
        if before is not None and before >= budget:
            # The results left no room for this turn. If they didn't fit themselves, they are dropped: TRL does both.
            if before > budget:
                self._drop_results(rollout)
            rollout.reported_tokens = talk.used if before > budget else before
            rollout.end = "token budget"
            return
        if before is not None and before + answer.completion_tokens > budget:
            # How many tokens the results took was unknown; now the turn can be cut off where it has to be.
            answer = self._client.answer(talk.messages, talk.tools, budget - before, talk.seed)
        if before is not None:
            talk.used = rollout.reported_tokens = before + answer.completion_tokens
        message, rollout.calls = read_turn(answer.message)
        rollout.completion.append(message)
        talk.messages.append({name: value for name, value in answer.message.items() if name in SENT_BACK})
        if not rollout.calls:
            rollout.end = "token budget" if answer.cut_off else "no tool call"

    def _counted(self, talk: _Talk, prompt_tokens: int | None) -> int | None:
        """Tokens between the prompt and this turn; None if the endpoint doesn't count."""
        if prompt_tokens is None:
            return None
        if talk.opening_tokens is None:
            talk.opening_tokens = prompt_tokens
        return prompt_tokens - talk.opening_tokens

    def _act(self, talk: _Talk) -> None:
        """Makes the calls of the last turn and appends their results, as far as the limits allow."""
        rollout, limit = talk.rollout, self._limits.max_tool_calling_iterations
        if rollout.rounds >= (LONGEST_EPISODE if limit is None else limit):
            rollout.end = "iteration limit"
            return
        results, failures = call_tools(rollout.calls, rollout.tools, self.loop)
        rollout.tool_calls += len(results)
        rollout.tool_failures += failures
        rollout.rounds += 1
        if rollout.episode.lost is not None:
            rollout.end = "lost"
        elif talk.used >= self._limits.max_completion_length:
            rollout.end = "token budget"
        else:
            talk.messages += [{key: result[key] for key in ("role", "tool_call_id", "content")} for result in results]
            rollout.completion += [{k: v for k, v in result.items() if k != "tool_call_id"} for result in results]

    def _drop_results(self, rollout: Rollout) -> None:
        while rollout.completion and rollout.completion[-1]["role"] == "tool":
            rollout.completion.pop()


def read_turn(message: Mapping[str, Any]) -> tuple[Message, list[Message]]:
    """An endpoint's message as training would have read it, and its calls with their ids.

    As there, calls of which one isn't JSON are the text of a turn without a call, and arguments that are JSON but no
    object are a call that fails.

    Args:
        message: An assistant message of the chat-completions API.
    """
    text = message.get("content") or ""
    read: Message = {"role": "assistant", "content": text}
    thoughts = next((message[name] for name in THOUGHTS if message.get(name)), None)
    if thoughts is not None:
        read["reasoning_content"] = thoughts
    asked = message.get("tool_calls") or []
    try:
        functions = [{"name": c["function"]["name"], "arguments": _arguments(c["function"])} for c in asked]
    except ValueError:
        written = [f"{c['function']['name']} {c['function']['arguments']}" for c in asked]
        return {**read, "content": "\n".join(filter(None, [text, *written]))}, []
    if not functions:
        return read, []
    calls: list[Message] = [{"type": "function", "function": function} for function in functions]
    identified = [{**call, "id": one["id"]} for call, one in zip(calls, asked, strict=True)]
    return {**read, "tool_calls": calls}, identified


def _arguments(function: Mapping[str, Any]) -> Any:
    written = function.get("arguments")
    return json.loads(written) if written else {}
