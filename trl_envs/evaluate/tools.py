"""Calling tools as GRPOTrainer calls them (TRL 1.16): what goes wrong becomes text for the model."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from trl_envs.agent.environments import tools_of

Message = dict[str, Any]


def bound_tools(environment: object) -> dict[str, Callable[..., Any]]:
    """An environment's tools by name, in TRL's order."""
    return {name: getattr(environment, name) for name in tools_of(type(environment))}


@contextmanager
def async_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop in a thread of its own, for async tools: what they keep between calls belongs to one loop."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="async-tools", daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def call_tools(
    calls: Sequence[Message], tools: dict[str, Callable[..., Any]], loop: asyncio.AbstractEventLoop
) -> tuple[list[Message], int]:
    """Makes the calls of one turn, async ones together and after the others.

    Args:
        calls: `tool_calls` of an assistant message.
        tools: What may be called.
        loop: Runs the async tools.

    Returns:
        The tool messages, and how many of the calls failed.
    """
    results: list[tuple[Message, Any]] = []
    waiting: list[tuple[Message, Coroutine[Any, Any, Any]]] = []
    failures = 0
    for call in calls:
        function = call.get("function") or {}
        name = str(function.get("name", call.get("name", "unknown")))
        # A server tells calls apart by their ids; in training they have none.
        asked: Message = {"role": "tool", "name": name, **({"tool_call_id": call["id"]} if "id" in call else {})}
        try:
            if call["type"] != "function":
                raise ValueError(f"Unsupported tool call type: {call['type']}")
            if name not in tools:
                raise ValueError(f"Tool {name} not found.")
            if inspect.iscoroutinefunction(tools[name]):
                waiting.append((asked, tools[name](**function["arguments"])))
            else:
                results.append((asked, tools[name](**function["arguments"])))
        except Exception as error:
            # Like TRL: the model is told, and goes on.
            failures += 1
            results.append((asked, {"error": str(error)}))
    for (asked, _), result in zip(waiting, _gathered([coroutine for _, coroutine in waiting], loop), strict=True):
        failed = isinstance(result, Exception)
        failures += failed
        results.append((asked, {"error": str(result)} if failed else result))
    return [_message(asked, result) for asked, result in results], failures


def _gathered(coroutines: list[Coroutine[Any, Any, Any]], loop: asyncio.AbstractEventLoop) -> list[Any]:
    if not coroutines:
        return []

    async def gather() -> list[Any]:
        return await asyncio.gather(*coroutines, return_exceptions=True)

    return asyncio.run_coroutine_threadsafe(gather(), loop).result()


def _message(asked: Message, result: Any) -> Message:
    return {**asked, "content": result if isinstance(result, list) else str(result)}
