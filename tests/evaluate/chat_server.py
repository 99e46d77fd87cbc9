"""An OpenAI-compatible endpoint with the tiny agent behind it: real answers over HTTP, tool calls included."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from tests.evaluate.playing import TINY
from tests.loopback import LiveServer, serving_app
from trl_envs.agent.chat import ChatFormat
from trl_envs.agent.models import load_tokenizer
from trl_envs.evaluate.generation import Generator, load_generating_model
from trl_envs.evaluate.sampling import Sampling

Body = dict[str, Any]
MODEL = "tiny-agent"
# Answers in the place of the model's: None lets it speak.
Interruption = Callable[[Body], JSONResponse | None]


def error(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error": {"message": message, "type": "invalid_request_error"}}, status_code=status)


class TinyAgent:
    """Turns of the tiny agent for conversations in the form of the API."""

    def __init__(self) -> None:
        self._tokenizer = load_tokenizer(TINY)
        self._model = load_generating_model(TINY, "cpu")
        self._one_at_a_time = threading.Lock()

    def answer(self, body: Body) -> Body:
        with self._one_at_a_time:
            return self._answer(body)

    def _answer(self, body: Body) -> Body:
        kwargs = body.get("chat_template_kwargs", {})
        chat = ChatFormat(self._tokenizer, kwargs)
        ids = chat.tokenizer.apply_chat_template(
            [_with_objects(message) for message in body["messages"]],
            tools=body.get("tools"),
            chat_template=chat._template,
            add_generation_prompt=True,
            tokenize=True,
            return_dict=False,
            **kwargs,
        )
        generator = Generator(self._model, chat.tokenizer, Sampling(temperature=body["temperature"]))
        [turn] = generator.turns([ids], [body["max_tokens"]])
        message = chat.parse(turn, ids, body.get("tools") or [])
        cut_off = turn[-1] != chat.tokenizer.eos_token_id
        calls = [_with_text(call, number) for number, call in enumerate(message.get("tool_calls") or [])]
        message = {
            "role": "assistant",
            "content": message["content"] or None,
            **({"tool_calls": calls} if calls else {}),
        }
        reason = "length" if cut_off else "tool_calls" if calls else "stop"
        return {
            "id": "1",
            "object": "chat.completion",
            "created": 0,
            "model": MODEL,
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
            "usage": {
                "prompt_tokens": len(ids),
                "completion_tokens": len(turn),
                "total_tokens": len(ids) + len(turn),
            },
        }


def _with_objects(message: Body) -> Body:
    """Arguments as templates want them."""
    if "tool_calls" not in message:
        return message
    calls = [
        {**call, "function": {**call["function"], "arguments": json.loads(call["function"]["arguments"])}}
        for call in message["tool_calls"]
    ]
    return {"content": "", **message, "tool_calls": calls}


def _with_text(call: Body, number: int) -> Body:
    """Arguments as the API wants them."""
    function = call["function"]
    return {
        "id": f"call-{number}",
        "type": "function",
        "function": {"name": function["name"], "arguments": json.dumps(function["arguments"])},
    }


@contextmanager
def chat_serving(
    agent: TinyAgent | None, interrupt: Interruption = lambda body: None
) -> Iterator[tuple[LiveServer, list[tuple[Body, str]]]]:
    """The endpoint, and the requests that it got with their Authorization headers."""
    asked: list[tuple[Body, str]] = []

    def make_app() -> FastAPI:
        app = FastAPI()

        async def models() -> Body:
            return {"object": "list", "data": [{"id": MODEL, "object": "model", "created": 0, "owned_by": "tests"}]}

        async def complete(request: Request) -> Any:
            body = await request.json()
            asked.append((body, request.headers.get("authorization", "")))
            interruption = interrupt(body)
            if interruption is not None:
                return interruption
            if body["model"] != MODEL:
                return error(404, f"The model `{body['model']}` does not exist.")
            assert agent is not None
            return agent.answer(body)

        app.add_api_route("/v1/models", models, methods=["GET"])
        app.add_api_route("/v1/chat/completions", complete, methods=["POST"], response_model=None)
        return app

    with serving_app(make_app) as server:
        yield server, asked
