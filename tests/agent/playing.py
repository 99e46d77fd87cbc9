"""Sampled play the way GRPOTrainer does it: token ids of each turn are kept, tool results are rendered behind them."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from trl import GRPOTrainer
from trl.chat_template_utils import add_response_schema, get_training_chat_template, parse_response

from trl_envs.agent.tiny.play import recipe_prompt, tools_of
from trl_envs.envs.episode import Episode
from trl_envs.envs.game import GameEnvironment, end_episode

THINKING_OFF = {"enable_thinking": False}


@dataclass
class Played:
    """One sampled episode: its tokens, what was said, and the environment's record."""

    prompt_tokens: int
    completion_tokens: int
    messages: list[dict[str, Any]]
    episode: Episode
    calls: int = 0
    failures: int = 0


@dataclass
class Rollout:
    environment: GameEnvironment
    ids: list[int]
    prompt_tokens: int
    messages: list[dict[str, Any]]
    calls: int = 0
    failures: int = 0
    open: bool = True
    tools: list[dict[str, Any]] = field(default_factory=list)


def prompt_ids(tokenizer: PreTrainedTokenizerBase, messages: list[dict[str, Any]], tools: list[Any]) -> list[int]:
    ids: list[int] = tokenizer.apply_chat_template(
        messages,
        tools=tools,
        add_generation_prompt=True,
        chat_template=get_training_chat_template(tokenizer),
        return_dict=False,
        **THINKING_OFF,
    )
    return ids


def tool_suffix_ids(tokenizer: PreTrainedTokenizerBase, tool_messages: list[dict[str, Any]]) -> list[int]:
    """TRL's own function, on as much of a trainer as it looks at."""
    trainer = SimpleNamespace(
        _is_vlm=False,
        processing_class=tokenizer,
        _tokenizer=tokenizer,
        chat_template=get_training_chat_template(tokenizer),
        chat_template_kwargs=THINKING_OFF,
    )
    ids: list[int] = GRPOTrainer._get_tool_suffix_ids(trainer, tool_messages)
    return ids


def generate(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, inputs: list[list[int]], **how: Any) -> Any:
    longest = max(map(len, inputs))
    pad = tokenizer.pad_token_id
    ids = torch.tensor([[pad] * (longest - len(one)) + one for one in inputs])
    mask = torch.tensor([[0] * (longest - len(one)) + [1] * len(one) for one in inputs])
    with torch.no_grad():
        out = model.generate(input_ids=ids, attention_mask=mask, max_new_tokens=96, pad_token_id=pad, **how)
    for row in out[:, longest:].tolist():
        end = row.index(tokenizer.eos_token_id) + 1 if tokenizer.eos_token_id in row else len(row)
        yield row[:end]


def play(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    game: str,
    environments: list[GameEnvironment],
    seeds: list[int],
    max_turns: int = 16,
    **how: Any,
) -> list[Played]:
    """One episode in each environment, all turns together.

    Args:
        how: Arguments of `generate`, such as do_sample and temperature.
    """
    tokenizer = add_response_schema(tokenizer)
    rollouts = []
    for environment, seed in zip(environments, seeds, strict=True):
        messages = [{"role": "user", "content": recipe_prompt(game) + environment.reset(seed=seed)}]
        tools = tools_of(environment)
        ids = prompt_ids(tokenizer, messages, tools)
        rollouts.append(Rollout(environment, ids, len(ids), messages, tools=tools))
    for _ in range(max_turns):
        going = [rollout for rollout in rollouts if rollout.open]
        if not going:
            break
        for rollout, new in zip(going, generate(model, tokenizer, [r.ids for r in going], **how), strict=True):
            take_turn(rollout, tokenizer, new)
    for rollout in rollouts:
        end_episode(rollout.environment)
    return [
        Played(r.prompt_tokens, len(r.ids) - r.prompt_tokens, r.messages, r.environment.episode, r.calls, r.failures)
        for r in rollouts
    ]


def take_turn(rollout: Rollout, tokenizer: PreTrainedTokenizerBase, new: list[int]) -> None:
    message = parse_response(tokenizer, new, prefix=rollout.ids, tools=rollout.tools)
    rollout.ids = rollout.ids + new
    rollout.messages.append(message)
    calls = message.get("tool_calls")
    if not calls:
        rollout.open = False
        return
    answers = []
    for call in calls:
        rollout.calls += 1
        name = call["function"]["name"]
        try:
            content = getattr(rollout.environment, name)(**call["function"]["arguments"])
        except Exception as error:
            rollout.failures += 1
            content = str({"error": str(error)})
        answers.append({"role": "tool", "name": name, "content": content})
    rollout.messages += answers
    rollout.ids = rollout.ids + tool_suffix_ids(tokenizer, answers)
