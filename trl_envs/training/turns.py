"""What GRPOTrainer is about to ask of its environments, so that it can be done at the same time (TRL 1.16)."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from trl import GRPOTrainer

from trl_envs.agent.environments import bare_call
from trl_envs.rollout.concurrent import Call, Plan

# The first parameters of GRPOTrainer._tool_call_loop. `completions` holds a list of messages for each rollout, to which
# the loop appends in place: tool results once all calls of the message are made, then the model's next message.
LOOP_PARAMETERS = ("self", "prompts", "prompt_ids", "completion_ids", "completions")


def why_not_concurrent() -> str:
    """Why the installed TRL's calls can't be foreseen; empty if they can."""
    loop = getattr(GRPOTrainer, "_tool_call_loop", None)
    found = tuple(inspect.signature(loop).parameters) if loop else ()
    if found[: len(LOOP_PARAMETERS)] == LOOP_PARAMETERS:
        return ""
    return f"GRPOTrainer._tool_call_loop of the installed TRL takes {found or 'nothing: it is gone'}"


def coming_resets(environments: Sequence[Any], inputs: Sequence[Mapping[str, Any]]) -> list[tuple[object, list[Call]]]:
    """The reset of each rollout's environment, with its row but for the column that names the environment."""
    plan: list[tuple[object, list[Call]]] = []
    for environment, row in zip(environments, inputs, strict=True):
        call = bare_call(environment, "reset", {key: value for key, value in row.items() if key != "environment"})
        plan.append((environment, [call] if call else []))
    return plan


def coming_turns(environments: Sequence[Any], completions: Sequence[list[dict[str, Any]]]) -> Plan:
    """A plan of the tool calls of the turn that is about to be played, whenever it is asked for.

    A rollout whose results found no room keeps the message that called for them as its last one; so the messages whose
    calls were given out once are remembered.

    Args:
        environments: One a rollout.
        completions: The messages of each rollout, as the loop appends to them.
    """
    given_out = [0] * len(completions)

    def plan() -> list[tuple[object, list[Call]]]:
        turn = []
        for index, (environment, messages) in enumerate(zip(environments, completions, strict=True)):
            if len(messages) > given_out[index]:
                given_out[index] = len(messages)
                turn.append((environment, _calls_of(environment, messages[-1])))
        return turn

    return plan


def _calls_of(environment: Any, message: Mapping[str, Any]) -> list[Call]:
    """The calls of a message that reach the environment; TRL answers those of other tools and shapes itself."""
    calls = []
    for one in message.get("tool_calls") or ():
        function = one.get("function") if one.get("type") == "function" else None
        if not isinstance(function, Mapping) or not isinstance(function.get("arguments"), Mapping):
            continue
        if function["name"] != "reset" and all(isinstance(key, str) for key in function["arguments"]):
            call = bare_call(environment, function["name"], function["arguments"])
            calls += [call] if call else []
    return calls
