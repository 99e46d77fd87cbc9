"""A played episode as a conversation to learn from, in the format that TRL's SFTTrainer takes (TRL 1.16)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from trl_envs.evaluate.loop import Rollout
from trl_envs.evaluate.tools import Message

# What a scripted player says once it has no call to make any more: a model that never saw an end would go on calling.
CLOSING: Message = {"role": "assistant", "content": "Done."}


def game_of(
    rollout: Rollout,
    describe: Callable[[Any], Mapping[str, Any]],
    template_kwargs: Mapping[str, Any],
    *,
    thoughts: bool,
) -> dict[str, Any] | None:
    """The conversation of a whole episode; None of one that wasn't played to its end.

    Arguments of calls and the tools' schemas go as JSON texts: Arrow, into which data sets are read, would fill each
    with the keys of all others. For a chat template that takes arguments for a mapping, they have to be read again.

    Args:
        rollout: What was played.
        describe: Gives a tool's schema.
        template_kwargs: Of the chat template, as GRPO will render by it.
        thoughts: Whether the reasoning before the calls is kept.
    """
    if rollout.end != "no tool call":
        return None
    messages = [*rollout.prompt, *(_message(message, thoughts) for message in rollout.completion)]
    if messages[-1]["role"] == "tool" or not rollout.completion:
        messages.append(CLOSING)
    tools = [describe(tool) for tool in rollout.tools.values()]
    game: dict[str, Any] = {"messages": messages, "tools": json.dumps(tools, ensure_ascii=False)}
    return {**game, "chat_template_kwargs": dict(template_kwargs)} if template_kwargs else game


def _message(message: Message, thoughts: bool) -> Message:
    kept = {name: value for name, value in message.items() if thoughts or name not in ("reasoning_content", "thinking")}
    if message.get("tool_calls"):
        kept["tool_calls"] = [_call(call) for call in message["tool_calls"]]
    return kept


def _call(call: Message) -> Message:
    function = call["function"]
    arguments = json.dumps(function["arguments"], ensure_ascii=False)
    return {"type": "function", "function": {"name": function["name"], "arguments": arguments}}
