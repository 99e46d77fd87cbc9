"""Echo through real servers of both protocols."""

from __future__ import annotations

import random
from typing import Any

import pytest
from fastapi.testclient import TestClient
from fastmcp import FastMCP
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from openenv.core.env_server.types import Action, Observation, State

from tests.envs.sending import fields_sent
from tests.loopback import serving, serving_app
from trl_envs.envs.echo import EchoEnv
from trl_envs.envs.echo.policies import random_policy, solver
from trl_envs.envs.echo.rewards import length
from trl_envs.envs.episode import Episode
from trl_envs.envs.game import LOST_TEXT, end_episode
from trl_envs.errors import SessionLost
from trl_envs.rollout.session import SessionOpener, SessionSettings


class McpEchoServer(MCPEnvironment):  # type: ignore[misc]
    """The shape of OpenEnv's newer echo_env: one MCP tool, no reward of its own, never done."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        mcp = FastMCP("echo_env")

        @mcp.tool
        def echo_message(message: str) -> str:
            if message == "break":
                raise RuntimeError("the tool broke")
            return message

        super().__init__(mcp)
        self._state = State(episode_id="0", step_count=0)

    def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> Observation:
        return Observation(done=False, reward=0.0, metadata={"status": "ready"})

    def _step_impl(self, action: Action, timeout_s: float | None = None, **_: Any) -> Observation:
        return Observation(done=False, reward=0.0, metadata={"error": "only tools"})

    @property
    def state(self) -> State:
        return self._state


def mcp_app() -> Any:
    return create_fastapi_app(McpEchoServer, CallToolAction, CallToolObservation, max_concurrent_envs=2)


@pytest.mark.parametrize("text", ["hello", "Grüße, 世界 🎈", '"quoted"\n\\'])
def test_the_typed_server_sends_back_what_it_got(text: str) -> None:
    with serving("echo") as server:
        environment = EchoEnv(SessionOpener([server.url]))
        assert environment.reset(seed=1) == "The echo server is ready."
        assert environment.echo(message=text) == text
        assert environment.episode.events[0].reward == pytest.approx(0.1 * len(text))
        assert length(environment.episode) == pytest.approx(0.1 * len(text))
        assert environment.episode.facts == {"echoes": 1}
        end_episode(environment)


def test_the_mcp_server_is_recognised_and_its_echo_scored_by_length() -> None:
    with serving_app(mcp_app) as server:
        environment = EchoEnv(SessionOpener([server.url]))
        environment.reset(seed=1)
        assert environment.echo(message="hello") == "hello"
        assert environment.episode.events[0].reward is None
        assert length(environment.episode) == pytest.approx(0.5)
        assert length(environment.episode, per_character=1.0) == 5.0
        end_episode(environment)


def test_an_error_of_the_mcp_tool_loses_the_episode() -> None:
    with serving_app(mcp_app) as server:
        environment = EchoEnv(SessionOpener([server.url]))
        environment.reset(seed=1)
        with pytest.raises(ValueError, match="can't go on"):
            environment.echo(message="break")
        assert "tool failed" in (environment.episode.lost or "")


def test_the_last_echo_counts_and_none_is_worth_nothing() -> None:
    with serving("echo") as server:
        environment = EchoEnv(SessionOpener([server.url]))
        environment.reset()
        assert length(environment.episode) == 0.0
        environment.echo(message="a longer message")
        environment.echo(message="ab")
        with pytest.raises(ValueError, match="string"):
            environment.echo(message=None)  # type: ignore[arg-type]
        assert length(environment.episode) == pytest.approx(0.2)
        end_episode(environment)


def test_the_policies_echo_once_and_the_solver_says_more() -> None:
    with serving("echo") as server:
        environment = EchoEnv(SessionOpener([server.url]))
        rewards = {}
        for policy in (random_policy, solver):
            observation, rng = environment.reset(), random.Random(0)
            while (call := policy(observation, environment.episode, rng)) is not None:
                observation = environment.echo(**call[1])
            assert len(environment.episode.events) == 1
            rewards[policy] = length(environment.episode)
        assert rewards[solver] > rewards[random_policy] > 0
        end_episode(environment)


def test_the_wire_is_that_of_the_official_typed_server() -> None:
    with serving("echo") as server:
        open_session = SessionOpener([server.url])
        # Fields of envs/echo_env/models.py in huggingface/OpenEnv before it became an MCP environment.
        assert open_session.action_fields() == {"message", "metadata"}
        session, reply = open_session(seed=0)
        assert set(reply.observation) == {"echoed_message", "message_length", "metadata"}
        assert reply.reward == 0.0
        reply = session.step({"message": "four"})
        assert reply.observation["message_length"] == 4
        with pytest.raises(SessionLost, match="VALIDATION_ERROR"):
            session.step({"message": ""})


def test_no_session_is_a_lost_episode_with_nothing_else_in_it() -> None:
    environment = EchoEnv(SessionOpener(["http://127.0.0.1:9"], SessionSettings(capacity_wait_s=0.0)))
    assert environment.reset() == LOST_TEXT
    assert environment.episode.lost is not None
    assert environment.episode == Episode(lost=environment.episode.lost)


def test_the_app_answers_health() -> None:
    from trl_envs.envs.echo.server import app

    assert TestClient(app).get("/health").json() == {"status": "healthy"}


def test_the_fields_that_it_says_it_sends_are_those_it_sends() -> None:
    with serving("echo") as typed, serving_app(mcp_app) as mcp, fields_sent() as sent:
        for server in (typed, mcp):
            environment = EchoEnv(SessionOpener([server.url]))
            environment.reset()
            environment.echo(message="hello")
            end_episode(environment)
    assert sent == set(EchoEnv._protocols)
