"""What all games share, on a real server: who is told of which error, and when the session is closed."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import threading
from typing import Any

import pytest
from transformers.utils import get_json_schema

from tests.loopback import serving
from trl_envs.envs.catch import CatchEnv
from trl_envs.envs.echo import EchoEnv
from trl_envs.envs.episode import Episode
from trl_envs.envs.game import LOST_TEXT, GameEnvironment, end_episode
from trl_envs.rollout.session import SessionOpener, SessionSettings

QUICK = SessionSettings(connect_timeout_s=2.0, call_timeout_s=2.0, capacity_wait_s=0.3)


def opener(url: str) -> SessionOpener:
    return SessionOpener([url], QUICK)


def client_threads() -> int:
    return sum(thread.name == "openenv-sync-client-loop" for thread in threading.enumerate())


@pytest.mark.parametrize(("game", "tools"), [(EchoEnv, {"echo"}), (CatchEnv, {"move", "stay"})])
def test_reset_and_the_tools_are_all_that_is_public(game: type[GameEnvironment], tools: set[str]) -> None:
    # The way GRPOTrainer lists tools.
    public = {name for name, _ in inspect.getmembers(game, predicate=inspect.isfunction) if not name.startswith("_")}
    assert public == tools | {"reset"}


def test_the_decorator_leaves_the_schema_as_the_signature_has_it() -> None:
    with serving("catch") as server:
        schema = get_json_schema(CatchEnv(opener(server.url)).move)["function"]
    assert schema["name"] == "move"
    assert schema["parameters"]["required"] == ["direction"]
    assert schema["parameters"]["properties"]["direction"]["type"] == "string"
    assert "left" in schema["parameters"]["properties"]["direction"]["description"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "takes direction"),
        ({"direction": None}, "must be a string"),
        ({"direction": 3}, "must be a string"),
        ({"direction": True}, "must be a string"),
        ({"direction": ["left"]}, "must be a string"),
        ({"direction": {"to": "left"}}, "must be a string"),
        ({"direction": "\ud800"}, "valid text"),
        ({"direction": "up"}, '"left" or "right"'),
        ({"direction": ""}, '"left" or "right"'),
        ({"direction": "left", "speed": 2}, "takes direction"),
        ({"way": "left"}, "takes direction"),
    ],
)
def test_wrong_arguments_are_told_to_the_model_and_cost_no_move(arguments: dict[str, Any], text: str) -> None:
    with serving("catch") as server:
        environment = CatchEnv(opener(server.url))
        environment.reset(seed=0)
        with pytest.raises(ValueError, match=text):
            environment.move(**arguments)
        assert environment.episode.events[-1].error is not None
        assert environment.episode.events[-1].arguments == arguments
        json.dumps(environment.episode.as_dict())
        assert environment.episode.lost is None
        assert "Moves left: 8" in environment.stay()
        end_episode(environment)


def test_null_filled_arguments_of_a_tool_without_any_are_refused() -> None:
    with serving("catch") as server:
        environment = CatchEnv(opener(server.url))
        environment.reset(seed=0)
        with pytest.raises(ValueError, match="stay takes no arguments"):
            environment.stay(direction=None)  # type: ignore[call-arg]
        end_episode(environment)


def test_every_call_becomes_an_event_and_the_episode_survives_json() -> None:
    with serving("echo") as server:
        environment = EchoEnv(opener(server.url))
        environment.reset(seed=4, environment="echo", prompt=[{"role": "user", "content": "..."}])
        environment.echo(message="hello")
        with pytest.raises(ValueError, match="must not be empty"):
            environment.echo(message="")
        end_episode(environment)
    episode = environment.episode
    assert (episode.environment, episode.seed) == ("echo", 4)
    assert [(event.tool, event.result, event.error) for event in episode.events] == [
        ("echo", "hello", None),
        ("echo", None, "message must not be empty."),
    ]
    assert episode.events[0].reward == pytest.approx(0.5)
    assert Episode.from_dict(json.loads(json.dumps(episode.as_dict()))) == episode


def test_a_finished_game_closes_its_session_and_answers_game_over() -> None:
    with serving("catch", sessions=1) as server:
        environment = CatchEnv(opener(server.url))
        environment.reset(seed=0)
        for _ in range(9):
            environment.stay()
        assert environment.episode.done
        assert client_threads() == 0
        with pytest.raises(ValueError, match=r"^Game over\.$"):
            environment.stay()
        assert environment.episode.events[-1].error == "Game over."


def test_a_reset_closes_the_former_session_and_forgets_its_episode() -> None:
    with serving("catch", sessions=1) as server:
        environment = CatchEnv(opener(server.url))
        for seed in range(3):
            environment.reset(seed=seed)
            environment.stay()
            assert len(environment.episode.events) == 1
        end_episode(environment)
        end_episode(environment)
        assert client_threads() == 0


def test_a_session_lost_in_a_step_loses_the_episode_until_the_next_reset() -> None:
    with serving("catch") as server:
        environment = CatchEnv(opener(server.url))
        environment.reset(seed=0)
        environment.stay()
        server.stop()
        with pytest.raises(ValueError, match="can't go on"):
            environment.stay()
        assert environment.episode.lost is not None
        assert server.url in environment.episode.lost
        server.start()
        with pytest.raises(ValueError, match="can't go on"):
            environment.stay()
        assert [event.error for event in environment.episode.events] == [None, LOST_TEXT, LOST_TEXT]
        assert not environment.episode.done
        assert "Moves left: 9" in environment.reset(seed=0)
        assert environment.episode.lost is None
        end_episode(environment)


def test_a_reset_without_a_session_does_not_raise() -> None:
    with serving("catch", sessions=1) as server:
        holder, environment = CatchEnv(opener(server.url)), CatchEnv(opener(server.url))
        holder.reset(seed=0)
        assert environment.reset(seed=0) == LOST_TEXT
        assert environment.episode.lost is not None
        assert "1/1 sessions" in environment.episode.lost
        with pytest.raises(ValueError, match="can't go on"):
            environment.stay()
        end_episode(holder)


def test_another_games_server_loses_the_episode_with_the_reason() -> None:
    with serving("echo") as echo, serving("catch") as catch:
        wrong_catch, wrong_echo = CatchEnv(opener(echo.url)), EchoEnv(opener(catch.url))
        assert wrong_catch.reset() == wrong_echo.reset() == LOST_TEXT
        assert "not an OpenSpiel server" in (wrong_catch.episode.lost or "")
        assert "not an echo server" in (wrong_echo.episode.lost or "")
        assert client_threads() == 0


def test_end_episode_is_harmless_for_other_classes() -> None:
    end_episode(object())


def test_games_are_imported_without_servers_torch_or_openenv() -> None:
    script = (
        "import sys, trl_envs.envs.catch, trl_envs.envs.echo\n"
        "import trl_envs.envs.catch.rewards, trl_envs.envs.catch.policies\n"
        "import trl_envs.envs.echo.rewards, trl_envs.envs.echo.policies\n"
        "print({name.partition('.')[0] for name in sys.modules} & {'openenv', 'pyspiel', 'torch', 'fastapi'})"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
