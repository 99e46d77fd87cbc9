"""A model behind an OpenAI-compatible endpoint plays as the same model here, and its errors say what to do."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from fastapi.responses import JSONResponse

from tests.evaluate.agreement import Doubting, assert_agreement
from tests.evaluate.chat_server import MODEL, Body, TinyAgent, chat_serving, error
from tests.evaluate.playing import NO_THINKING, WHOLE_GAMES, catch_config, catch_factory, player
from tests.loopback import serving
from trl_envs.agent.terms import build_terms
from trl_envs.errors import ConfigError, TrainingFailed, TrlEnvError
from trl_envs.evaluate.batches import ScoredEpisode, evaluation_rows, play_rows
from trl_envs.evaluate.endpoint import EndpointPlayer, read_turn
from trl_envs.evaluate.endpoint_client import Endpoint
from trl_envs.evaluate.loop import Limits
from trl_envs.evaluate.sampling import Sampling
from trl_envs.evaluate.tools import async_loop

EPISODES = 8
GREEDY = Sampling(temperature=0)


@pytest.fixture(scope="module")
def agent() -> TinyAgent:
    return TinyAgent()


@pytest.fixture(scope="module")
def games() -> Iterator[str]:
    with serving("catch", sessions=3 * EPISODES) as server:
        yield server.url


@contextmanager
def remote(
    url: str, sampling: Sampling = GREEDY, limits: Limits = WHOLE_GAMES, **settings: Any
) -> Iterator[EndpointPlayer]:
    endpoint = Endpoint(url, MODEL, None, "SOME_KEY", retries=0)
    with ThreadPoolExecutor(8) as workers, async_loop() as loop:
        one = EndpointPlayer(replace(endpoint, **settings), sampling, limits, NO_THINKING, 0, workers, loop)
        yield one
        one.close()


def rows(episodes: int = EPISODES) -> list[dict[str, Any]]:
    return evaluation_rows("catch", catch_config().envs["catch"], 0, episodes)


def played(who: Any, games: str, episodes: int = EPISODES) -> list[ScoredEpisode]:
    (batch,) = play_rows(who, catch_factory(games), build_terms(catch_config().envs), rows(episodes), episodes)
    return batch


@pytest.mark.parametrize(
    "limits",
    [pytest.param(WHOLE_GAMES, marks=pytest.mark.slow), Limits(1024, 3), Limits(150, None), Limits(24, 12)],
    ids=["whole games", "three rounds", "budget within the game", "budget of one turn"],
)
def test_an_endpoint_plays_as_transformers_do_where_the_model_is_sure(
    agent: TinyAgent, games: str, limits: Limits
) -> None:
    with player(GREEDY, limits) as here:
        doubting = Doubting(here.source)  # type: ignore[arg-type]
        ours = played(replace(here, source=doubting), games)
    with chat_serving(agent) as (server, asked), remote(f"{server.url}/v1", limits=limits) as there:
        theirs = played(there, games)
    assert_agreement(doubting, [one.rollout for one in ours], [one.rollout for one in theirs])
    assert [one.rollout.prompt for one in theirs] == [one.rollout.prompt for one in ours]
    body, _ = asked[0]
    assert (body["temperature"], body["max_tokens"]) == (0, limits.max_completion_length)
    assert body["chat_template_kwargs"] == NO_THINKING and "top_p" not in body
    assert [tool["function"]["name"] for tool in body["tools"]] == ["move", "stay"]


def test_sampling_has_a_seed_for_each_episode_and_plain_requests_hold_nothing_else(
    agent: TinyAgent, games: str
) -> None:
    sampled = Sampling(temperature=0.7, top_p=0.9, top_k=5)
    short = Limits(1024, 2)
    with chat_serving(agent) as (server, asked):
        with remote(f"{server.url}/v1", sampled, short) as there:
            played(there, games, 3)
        seeds = {body["seed"] for body, _ in asked}
        full = asked[0][0]
        with remote(f"{server.url}/v1", sampled, short, plain=True) as there:
            played(there, games, 1)
        plain = asked[-1][0]
    assert len(seeds) == 3
    assert (full["temperature"], full["top_p"], full["top_k"]) == (0.7, 0.9, 5)
    assert set(full) - set(plain) == {"top_k", "chat_template_kwargs"}
    assert "return" in full["tools"][0]["function"] and "return" not in plain["tools"][0]["function"]


def call(arguments: str | None, name: str = "move") -> Body:
    return {"id": "a", "type": "function", "function": {"name": name, "arguments": arguments}}


def test_calls_are_read_as_in_training() -> None:
    message, calls = read_turn({"role": "assistant", "content": None, "tool_calls": [call('{"direction": "left"}')]})
    assert message["tool_calls"][0] == {
        "type": "function",
        "function": {"name": "move", "arguments": {"direction": "left"}},
    }
    assert (message["content"], calls[0]["id"]) == ("", "a")
    # What isn't JSON is text, and what is no object is a call that fails.
    message, calls = read_turn({"role": "assistant", "content": "x", "tool_calls": [call("{}"), call('{"direction"')]})
    assert (calls, message) == ([], {"role": "assistant", "content": 'x\nmove {}\nmove {"direction"'})
    assert read_turn({"role": "assistant", "tool_calls": [call('"left"')]})[1][0]["function"]["arguments"] == "left"
    assert read_turn({"role": "assistant", "tool_calls": [call(None)]})[1][0]["function"]["arguments"] == {}
    thought = read_turn({"role": "assistant", "content": "hi", "reasoning": "hm"})[0]
    assert thought == {"role": "assistant", "content": "hi", "reasoning_content": "hm"}


def scripted(*turns: Body) -> Any:
    """An endpoint without counts that says the turns in this order, each episode alone."""
    left = list(turns)

    def interrupt(body: Body) -> JSONResponse:
        choice = {"index": 0, "message": {"role": "assistant", "content": None, **left.pop(0)}, "finish_reason": "stop"}
        return JSONResponse({"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]})

    return interrupt


def test_calls_that_fail_are_told_to_the_model_and_the_next_request_holds_the_results(games: str) -> None:
    two = {"tool_calls": [call('"left"'), {**call("{}", "fly"), "id": "b"}]}
    turns = scripted(two, {"tool_calls": [{**call("{}", "stay"), "id": "c"}]}, {"content": "I give up."})
    with chat_serving(None, turns) as (server, asked), remote(f"{server.url}/v1") as there:
        [one] = played(there, games, 1)
    assert (one.rollout.tool_calls, one.rollout.tool_failures, one.rollout.end) == (3, 2, "no tool call")
    assert one.rollout.tokens is None and one.rewards == {"catch.caught": 0.0}
    first, second = asked[1][0]["messages"][-2:]
    assert (first["tool_call_id"], second["tool_call_id"]) == ("a", "b")
    assert "mapping" in first["content"] and second["content"] == "{'error': 'Tool fly not found.'}"
    assert asked[1][0]["messages"][-3]["tool_calls"] == two["tool_calls"]
    assert "Ball: column" in asked[2][0]["messages"][-1]["content"]


def failed(url: str, games: str, **settings: Any) -> TrlEnvError:
    with remote(url, **settings) as there, pytest.raises(TrlEnvError) as caught:
        played(there, games, 2)
    return caught.value


def test_errors_name_the_url_and_what_to_do(games: str) -> None:
    with chat_serving(None) as (server, _):
        url = f"{server.url}/v1"
        wrong = failed(url, games, model="tiny-agnet")
        assert isinstance(wrong, ConfigError) and wrong.exit_code == 2
        assert (wrong.message, wrong.hint) == (f"{url} has no model tiny-agnet; it has {MODEL}", f"use --model {MODEL}")
        root = failed(server.url, games)
        assert isinstance(root, ConfigError) and "--base-url" in root.hint and "/v1" in root.hint
    gone = failed(url, games)
    assert isinstance(gone, TrainingFailed) and f"{url} can't be reached" in gone.message and "start" in gone.hint


@pytest.mark.parametrize(
    ("status", "said", "kind", "hint"),
    [
        (401, "Incorrect API key provided: sk-secret", ConfigError, "--api-key-env"),
        (400, "Unrecognized request argument supplied: chat_template_kwargs", ConfigError, "--plain"),
        (400, "This model's maximum context length is 512 tokens", ConfigError, "grpo.max_completion_length"),
        (400, '"auto" tool choice requires --enable-auto-tool-choice', ConfigError, "--enable-auto-tool-choice"),
        (500, "out of memory", TrainingFailed, "log"),
    ],
)
def test_what_an_endpoint_refuses_is_explained_without_the_key(
    games: str, status: int, said: str, kind: type[TrlEnvError], hint: str
) -> None:
    with chat_serving(None, lambda body: error(status, said)) as (server, asked):
        url = f"{server.url}/v1"
        one = failed(url, games, key="sk-secret")
    assert isinstance(one, kind) and url in one.message and hint in one.hint
    assert "sk-secret" not in str(one) and one.__cause__ is None
    assert asked[0][1] == "Bearer sk-secret"
    if status == 401:
        assert "SOME_KEY holds a key that isn't taken" in one.message


def test_what_is_no_such_api_and_what_never_answers_are_told_apart(games: str) -> None:
    with chat_serving(None, lambda body: JSONResponse({"hello": "world"})) as (server, _):
        other = failed(f"{server.url}/v1", games)
    assert "doesn't answer as a chat-completions API does" in other.message
    with socket.create_server(("127.0.0.1", 0)) as silent:
        late = failed(f"http://127.0.0.1:{silent.getsockname()[1]}/v1", games, timeout_s=0.3)
    assert isinstance(late, TrainingFailed) and "gave no answer within 0.3 s" in late.message


def test_a_failure_that_passes_is_tried_again(agent: TinyAgent, games: str) -> None:
    failures, lock = [503], threading.Lock()

    def now_and_then(body: Body) -> JSONResponse | None:
        with lock:
            return error(failures.pop(), "starting") if failures else None

    with chat_serving(agent, now_and_then) as (server, asked), remote(f"{server.url}/v1", retries=2) as there:
        [one] = played(there, games, 1)
    assert one.rollout.turns == len(asked) - 1
    assert json.dumps(asked[0][0]) == json.dumps(asked[1][0])
