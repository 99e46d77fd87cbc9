"""Catch through its real server: rules, wire, seeds, policies."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.envs.sending import fields_sent
from tests.loopback import serving
from trl_envs.envs.catch import CatchEnv
from trl_envs.envs.catch.environment import Board
from trl_envs.envs.catch.policies import random_policy, solver
from trl_envs.envs.catch.rewards import caught
from trl_envs.envs.episode import Episode
from trl_envs.errors import ConfigError, SessionLost
from trl_envs.rollout.session import SessionOpener

Policy = Callable[[str, Episode, random.Random], tuple[str, dict[str, Any]] | None]


def play(environment: CatchEnv, policy: Policy, seed: int, rng: random.Random) -> list[str]:
    """All observations of an episode."""
    seen = [environment.reset(seed=seed)]
    while (call := policy(seen[-1], environment.episode, rng)) is not None:
        tool, arguments = call
        seen.append(getattr(environment, tool)(**arguments))
    return seen


def test_the_solver_catches_every_ball_and_chance_catches_few() -> None:
    with serving("catch") as server:
        environment = CatchEnv(SessionOpener([server.url]))
        rng = random.Random(0)
        outcomes = {}
        for policy in (solver, random_policy):
            scores = []
            for seed in range(60):
                play(environment, policy, seed, rng)
                assert environment.episode.done
                assert environment.episode.facts["moves"] == 9
                scores.append(caught(environment.episode))
            outcomes[policy] = sum(scores) / len(scores)
    assert outcomes[solver] == 1.0
    assert outcomes[random_policy] < 0.4


def test_all_starts_are_reached_and_a_seed_is_a_game_under_concurrent_sessions() -> None:
    with serving("catch", sessions=16) as server:
        open_session = SessionOpener([server.url])

        def start(seed: int) -> str:
            return play(CatchEnv(open_session), solver, seed, random.Random(0))[0]

        with ThreadPoolExecutor(12) as pool:
            first, second = (list(pool.map(start, range(40))) for _ in range(2))
    assert first == second
    assert len(set(first)) == 5


def test_an_episode_in_words() -> None:
    with serving("catch") as server:
        environment = CatchEnv(SessionOpener([server.url]))
        seed = next(
            seed for seed in range(50) if "Ball: column 5" in play(environment, solver, seed, random.Random(0))[0]
        )
        assert environment.reset(seed=seed) == (
            "Ball: column 5. Paddle: column 3. The ball is 2 columns to the right of the paddle. Moves left: 9."
        )
        assert environment.move(direction="right") == (
            "Ball: column 5. Paddle: column 4. The ball is 1 column to the right of the paddle. Moves left: 8."
        )
        assert "right above the paddle. Moves left: 7." in environment.move(direction="right")
        # Into the wall: legal, and the paddle stays.
        assert "Paddle: column 5." in environment.move(direction="right")
        for _ in range(5):
            environment.stay()
        assert environment.stay() == "You caught the ball. Game over."
    assert environment.episode.facts == {"caught": True, "moves": 9}
    assert [event.reward for event in environment.episode.events] == [0.0] * 8 + [1.0]
    assert [event.done for event in environment.episode.events] == [False] * 8 + [True]


def test_a_miss_and_an_unfinished_game_score_nothing() -> None:
    with serving("catch") as server:
        environment = CatchEnv(SessionOpener([server.url]))
        environment.reset(
            seed=next(s for s in range(50) if "to the" in play(environment, solver, s, random.Random(0))[0])
        )
        for _ in range(8):
            environment.stay()
        assert caught(environment.episode) == 0.0
        assert environment.stay() == "You missed the ball. Game over."
        assert caught(environment.episode) == 0.0
        assert environment.episode.events[-1].reward == -1.0


def test_the_wire_is_that_of_the_official_openspiel_server() -> None:
    with serving("catch") as server:
        open_session = SessionOpener([server.url])
        # Fields of envs/openspiel_env/models.py in huggingface/OpenEnv; `metadata` is every action's and observation's.
        assert open_session.action_fields() == {"action_id", "game_name", "game_params", "metadata"}
        session, reply = open_session(seed=0)
        assert set(reply.observation) == {
            *("info_state", "legal_actions", "game_phase", "current_player_id", "opponent_last_action", "metadata")
        }
        assert (reply.reward, reply.done, reply.observation["game_phase"]) == (None, False, "initial")
        assert len(reply.observation["info_state"]) == 50
        assert reply.observation["legal_actions"] == [0, 1, 2]
        reply = session.step({"action_id": 1, "game_name": "catch"})
        assert (reply.reward, reply.observation["game_phase"], reply.observation["current_player_id"]) == (
            0.0,
            "playing",
            0,
        )
        for _ in range(8):
            reply = session.step({"action_id": 1, "game_name": "catch"})
        assert (reply.done, reply.observation["game_phase"], reply.observation["legal_actions"]) == (
            True,
            "terminal",
            [],
        )
        with pytest.raises(SessionLost, match="the game is over"):
            session.step({"action_id": 1, "game_name": "catch"})


def test_a_step_before_the_first_reset_is_an_error() -> None:
    from trl_envs.envs.catch.server import CatchAction, CatchServer

    with pytest.raises(ValueError, match="reset the environment"):
        CatchServer().step(CatchAction(action_id=1))


def test_a_board_of_another_game_is_refused() -> None:
    with pytest.raises(SessionLost, match="isn't that of catch"):
        Board.read([0.0] * 9)


def test_the_app_answers_health() -> None:
    from trl_envs.envs.catch.server import app

    assert TestClient(app).get("/health").json() == {"status": "healthy"}


def test_the_server_plays_no_other_game(monkeypatch: pytest.MonkeyPatch) -> None:
    from trl_envs.envs.catch.server import check_game

    check_game()
    monkeypatch.setenv("OPENSPIEL_GAME", "chess")
    with pytest.raises(ConfigError, match="chess"):
        check_game()


@pytest.mark.parametrize("text", ["0", "-1", "many", "", "1.5"])
def test_a_bad_number_of_sessions_is_named(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from trl_envs.envs.serving import sessions_from_environment

    monkeypatch.setenv("MAX_CONCURRENT_ENVS", text)
    with pytest.raises(ConfigError, match="MAX_CONCURRENT_ENVS must be a positive whole number"):
        sessions_from_environment()
    monkeypatch.setenv("MAX_CONCURRENT_ENVS", "3")
    assert sessions_from_environment() == 3
    monkeypatch.delenv("MAX_CONCURRENT_ENVS")
    assert sessions_from_environment() == 8


def test_the_fields_that_it_says_it_sends_are_those_it_sends() -> None:
    with serving("catch") as server, fields_sent() as sent:
        play(CatchEnv(SessionOpener([server.url])), random_policy, 3, random.Random(3))
    assert sent == set(CatchEnv._protocols)
