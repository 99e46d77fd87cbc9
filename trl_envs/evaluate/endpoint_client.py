"""Requests to an OpenAI-compatible endpoint, and what its errors mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import openai

from trl_envs.config.suggest import nearest
from trl_envs.errors import ConfigError, TrainingFailed, TrlEnvError
from trl_envs.evaluate.sampling import Sampling
from trl_envs.evaluate.tools import Message


@dataclass(frozen=True)
class Endpoint:
    """Where a model is.

    Args:
        url: Base URL, which mostly ends in /v1.
        model: The model's name there.
        key: What proves who asks; None for an endpoint that wants none.
        key_variable: The environment variable from which the key was taken.
        plain: Whether to send only what OpenAI's own API knows.
        timeout_s: Seconds for one answer.
        retries: Times that a request is made again after a failure that may pass, each later than the one before.
    """

    url: str
    model: str
    key: str | None
    key_variable: str
    plain: bool = False
    timeout_s: float = 600.0
    retries: int = 4


@dataclass(frozen=True)
class Answer:
    """One turn.

    Args:
        message: The assistant message.
        cut_off: Whether its tokens ran out.
        prompt_tokens: Tokens before it, as the endpoint counts; None if it doesn't.
        completion_tokens: Its own tokens.
    """

    message: Message
    cut_off: bool
    prompt_tokens: int | None
    completion_tokens: int


class EndpointClient:
    """Asks for turns; from several threads at once, too.

    Args:
        endpoint: Whom to ask.
        sampling: How tokens are chosen.
        template_kwargs: Arguments of its chat template.
    """

    def __init__(self, endpoint: Endpoint, sampling: Sampling, template_kwargs: Mapping[str, Any]) -> None:
        self._endpoint = endpoint
        # The library wants a key; where none is set it must not find another one of its own.
        self._client = openai.OpenAI(
            base_url=endpoint.url,
            api_key=endpoint.key or "none",
            timeout=endpoint.timeout_s,
            max_retries=endpoint.retries,
        )
        self._fields: dict[str, Any] = {"temperature": sampling.temperature}
        if sampling.temperature > 0:
            self._fields["top_p"] = sampling.top_p
        self._extensions = {} if endpoint.plain else _extensions(sampling, template_kwargs)

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()

    def answer(self, messages: Sequence[Message], tools: Sequence[Message], max_tokens: int, seed: int) -> Answer:
        """The next turn of a conversation.

        Args:
            messages: The conversation in the form of the API.
            tools: Schemas of the tools; may be empty.
            max_tokens: Most tokens of the turn.
            seed: Of its sampling.

        Raises:
            ConfigError: There is no such model, or the key or the request is refused.
            TrainingFailed: The endpoint can't be reached, or fails.
        """
        request: dict[str, Any] = {
            **self._fields,
            "model": self._endpoint.model,
            "messages": list(messages),
            "max_tokens": max_tokens,
            "seed": seed,
            "extra_body": self._extensions,
        }
        if tools:
            request["tools"] = list(tools)
        try:
            reply = self._client.chat.completions.create(**request)
        except openai.OpenAIError as error:
            raise self._explained(error) from None
        # What isn't of this API is parsed all the same, with holes where its fields should be.
        choices = getattr(reply, "choices", None)
        if not choices or choices[0].message is None:
            raise ConfigError(
                f"{self._endpoint.url} doesn't answer as a chat-completions API does: {str(reply)[:200]!r}",
                "check --base-url; it mostly ends in /v1",
            )
        message, usage = choices[0].message.model_dump(exclude_none=True), reply.usage
        return Answer(
            message,
            choices[0].finish_reason == "length",
            usage.prompt_tokens if usage is not None else None,
            usage.completion_tokens if usage is not None else 0,
        )

    def _explained(self, error: openai.OpenAIError) -> TrlEnvError:
        """The library's error with what to do about it; the key isn't in it."""
        url, variable = self._endpoint.url, self._endpoint.key_variable
        said = self._without_key(str(error))
        if isinstance(error, openai.APITimeoutError):
            late = f"{url} gave no answer within {self._endpoint.timeout_s:g} s, {self._endpoint.retries + 1} times"
            return TrainingFailed(late, "see the server's log; rollout.concurrency=4 asks for less at once")
        if isinstance(error, openai.APIConnectionError):
            cause = self._without_key(str(error.__cause__ or error))
            return TrainingFailed(f"{url} can't be reached: {cause}", "start the server, or correct --base-url")
        if isinstance(error, openai.AuthenticationError | openai.PermissionDeniedError):
            held = "isn't set" if self._endpoint.key is None else "holds a key that isn't taken"
            hint = f"put the key into {variable}, or name another variable: --api-key-env NAME"
            return ConfigError(f"{url} refuses access, and {variable} {held}: {said}", hint)
        if isinstance(error, openai.NotFoundError):
            return self._not_found(said)
        if isinstance(error, openai.BadRequestError | openai.UnprocessableEntityError):
            return ConfigError(f"{url} refuses the request: {said}", self._refused_hint(said))
        return TrainingFailed(f"{url} fails: {said}", "see the server's log, or try later")

    def _not_found(self, said: str) -> ConfigError:
        url, model = self._endpoint.url, self._endpoint.model
        try:
            served = [one.id for one in self._client.models.list()]
        except (openai.OpenAIError, TypeError, AttributeError):
            # Not even a list of models: it isn't the root of such an API.
            return ConfigError(f"{url} has no chat completions: {said}", "check --base-url; it mostly ends in /v1")
        if model in served or not served:
            return ConfigError(f"{url} doesn't find what was asked of {model}: {said}", "see the server's log")
        return ConfigError(
            f"{url} has no model {model}; it has {', '.join(served[:10])}", f"use --model {nearest(model, served)}"
        )

    def _refused_hint(self, said: str) -> str:
        if "context" in said or "max_tokens" in said:
            return (
                "serve the model with a longer context, or give an episode fewer tokens: grpo.max_completion_length=N"
            )
        if "tool" in said and "auto" in said:
            return "start the server so that models may call tools: vLLM's --enable-auto-tool-choice --tool-call-parser"
        if self._extensions:
            return f"if it doesn't take {', '.join(self._extensions)}: --plain sends only what OpenAI's own API knows"
        return "see the server's documentation"

    def _without_key(self, text: str) -> str:
        key = self._endpoint.key
        return text.replace(key, "***") if key else text


def _extensions(sampling: Sampling, template_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """What vLLM, SGLang and others take beside OpenAI's own fields; only what differs from doing nothing."""
    wanted: dict[str, Any] = {}
    if template_kwargs:
        wanted["chat_template_kwargs"] = dict(template_kwargs)
    if sampling.repetition_penalty != 1.0:
        wanted["repetition_penalty"] = sampling.repetition_penalty
    if sampling.temperature > 0 and sampling.top_k > 0:
        wanted["top_k"] = sampling.top_k
    if sampling.temperature > 0 and sampling.min_p:
        wanted["min_p"] = sampling.min_p
    return wanted
