"""Conversations as token ids, exactly as GRPOTrainer makes and reads them (TRL 1.16).

What training shows the model and what evaluation shows it must be the same tokens, or the figures compare two tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trl.chat_template_utils import (
    add_response_schema,
    get_training_chat_template,
    is_chat_template_prefix_preserving,
    parse_response,
)

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Message = dict[str, Any]


class ChatFormat:
    """Renders prompts and tool results, and reads what the model says.

    Args:
        tokenizer: The model's; one without a response template gets TRL's for its chat template.
        template_kwargs: `grpo.chat_template_kwargs`.

    Raises:
        ValueError: TRL doesn't know the tokenizer's chat template.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, template_kwargs: Mapping[str, Any]) -> None:
        if not any(getattr(tokenizer, name, None) is not None for name in ("response_template", "response_schema")):
            tokenizer = add_response_schema(tokenizer)
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token
        self.tokenizer = tokenizer
        self._kwargs = dict(template_kwargs)
        # A template that renders earlier turns anew once later ones follow would change what the model has said.
        preserving = is_chat_template_prefix_preserving(tokenizer)
        self._template: str | None = None if preserving else get_training_chat_template(tokenizer)

    def prompt_ids(
        self, messages: Sequence[Message], tools: Sequence[Callable[..., Any] | Mapping[str, Any]]
    ) -> list[int]:
        """The prompt with the tools' schemas, up to where the model's first turn begins."""
        rendered = self.tokenizer.apply_chat_template(
            conversation=[list(messages)],
            # Some templates render an empty list of tools as boilerplate.
            tools=list(tools) or None,
            chat_template=self._template,
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            **self._kwargs,
        )
        return list(rendered["input_ids"][0])

    def result_ids(self, results: Sequence[Message]) -> list[int]:
        """What stands between the end of a turn that called tools and the beginning of the next one.

        The model's own tokens are never rendered again; only the results are, behind a conversation made up for that.

        Args:
            results: The turn's tool messages, one at least.

        Raises:
            ValueError: The template changes earlier turns when results follow.
        """
        call = {"type": "function", "function": {"name": results[0]["name"], "arguments": {}}}
        turn: Message = {"role": "assistant", "content": "", "tool_calls": [call]}
        before: list[Message] = [{"role": "user", "content": "dummy"}, turn]
        prefix = self._render(before, add_generation_prompt=False)
        whole = self._render([*before, *results], add_generation_prompt=True)
        ends = [index for index, token in enumerate(prefix) if token == self.tokenizer.eos_token_id]
        if ends:
            # Qwen's templates put a newline behind the end of a turn, which the model itself doesn't generate.
            prefix = prefix[: ends[-1] + 1]
        if whole[: len(prefix)] != prefix:
            raise ValueError("the chat template renders a tool call differently once its result follows")
        return whole[len(prefix) :]

    def turn_ids(self, turn: Message) -> list[int]:
        """A turn of the model as it would have generated it, with the token that ends it.

        Args:
            turn: An assistant message.
        """
        before: list[Message] = [{"role": "user", "content": "dummy"}]
        prompt = self._render(before, add_generation_prompt=True)
        whole = self._render([*before, turn], add_generation_prompt=False)
        # A generation prompt may end with what the template leaves out of finished turns, such as an empty think block.
        pairs = enumerate(zip(prompt, whole, strict=False))
        common = next((index for index, (one, other) in pairs if one != other), min(len(prompt), len(whole)))
        ids = whole[common:]
        end = self.tokenizer.eos_token_id
        return ids[: ids.index(end) + 1] if end in ids else ids

    def conversation(
        self, messages: Sequence[Message], tools: Sequence[Callable[..., Any] | Mapping[str, Any]]
    ) -> tuple[list[int], list[bool]]:
        """A finished conversation token for token as GRPO comes to it, and which of the tokens the model has said.

        It is put together from the same pieces: the prompt, each turn as the model generates it, and what TRL puts
        between a turn and the next one.

        Args:
            messages: The prompt, then assistant messages (arguments of their calls as mappings) with, between two of
                them, the tool messages that answer the calls.
            tools: The tools that the prompt shows, as functions or schemas.

        Raises:
            ValueError: The messages don't follow each other like that.
        """
        roles = [message["role"] for message in messages]
        start = roles.index("assistant")
        ids = self.prompt_ids(messages[:start], tools)
        said = [False] * len(ids)
        while start < len(messages):
            end = next((at for at in range(start + 1, len(roles)) if roles[at] != "tool"), len(roles))
            answered, last = end > start + 1, end == len(roles)
            if roles[start] != "assistant" or answered == last:
                raise ValueError(f"assistant and tool messages have to take turns, and these are {', '.join(roles)}")
            turn = self.turn_ids(messages[start])
            results = self.result_ids(messages[start + 1 : end]) if answered else []
            ids += [*turn, *results]
            said += [True] * len(turn) + [False] * len(results)
            start = end
        return ids, said

    def thinks(self) -> bool:
        """Whether the model is asked to think before it acts: by `enable_thinking`, or by its template's default."""
        if "enable_thinking" in self._kwargs:
            return bool(self._kwargs["enable_thinking"])
        return "enable_thinking" in str(self._template or self.tokenizer.chat_template)

    def parse(self, ids: Sequence[int], prefix: Sequence[int], tools: Sequence[Callable[..., Any]]) -> Message:
        """The assistant message of a turn, with `tool_calls` where it has any that can be read.

        Args:
            ids: The turn's tokens.
            prefix: All tokens before them.
            tools: The tools that the prompt shows, by whose schemas arguments are typed.
        """
        message: Message = parse_response(self.tokenizer, list(ids), prefix=list(prefix), tools=list(tools))
        return message

    def _render(self, messages: list[Message], *, add_generation_prompt: bool) -> list[int]:
        ids: list[int] = self.tokenizer.apply_chat_template(
            messages,
            add_generation_prompt=add_generation_prompt,
            tokenize=True,
            chat_template=self._template,
            return_dict=False,
            **self._kwargs,
        )
        return ids
