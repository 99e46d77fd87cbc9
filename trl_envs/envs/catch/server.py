"""The embedded catch server: `uvicorn trl_envs.envs.catch.server:app`.

Fields are those of OpenEnv's openspiel_env. Unlike the official server it honours `reset(seed=...)` and refuses
illegal actions and steps after the end, which that one answers with some other state.
"""

from __future__ import annotations

import os
import random
import uuid
from typing import Any

import pyspiel
from pydantic import Field

from trl_envs.envs.serving import build_app
from trl_envs.errors import ConfigError
from trl_envs.rollout.openenv_core import Action, Environment, Observation, State

GAME_VARIABLE = "OPENSPIEL_GAME"


class CatchAction(Action):  # type: ignore[misc]
    """One move: 0 left, 1 stay, 2 right."""

    action_id: int
    game_name: str = "catch"
    game_params: dict[str, Any] = Field(default_factory=dict)


class CatchObservation(Observation):  # type: ignore[misc]
    """The board as 10 x 5 numbers, row by row, 1.0 for ball and paddle."""

    info_state: list[float]
    legal_actions: list[int]
    game_phase: str = "playing"
    current_player_id: int = 0
    opponent_last_action: int | None = None


class CatchServer(Environment):  # type: ignore[misc]
    """One session: a game of OpenSpiel's catch at a time."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._game = pyspiel.load_game("catch")
        self._position: Any = None
        self._state = State(episode_id=None, step_count=0)

    def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> CatchObservation:
        """Starts a new game.

        Args:
            seed: Decides in which column the ball starts, for each with the same chance; None is a random one.
            episode_id: Name of the episode; None is a new one.
        """
        self._position = self._game.new_initial_state()
        columns = [action for action, _ in self._position.chance_outcomes()]
        self._position.apply_action(random.Random(seed).choice(columns))
        self._state = State(episode_id=episode_id or str(uuid.uuid4()), step_count=0)
        return self._observe("initial", None)

    def step(self, action: CatchAction, timeout_s: float | None = None, **_: Any) -> CatchObservation:
        """Makes one move.

        Raises:
            ValueError: The move isn't legal, the game is over or was never started.
        """
        if self._position is None:
            raise ValueError("reset the environment before the first step")
        if self._position.is_terminal():
            raise ValueError("the game is over: reset the environment")
        legal = self._position.legal_actions()
        if action.action_id not in legal:
            raise ValueError(f"action {action.action_id} is not legal, choose from {legal}")
        self._position.apply_action(action.action_id)
        self._state.step_count += 1
        over = self._position.is_terminal()
        return self._observe("terminal" if over else "playing", float(self._position.rewards()[0]))

    def close(self) -> None:
        """Ends the game. A server that forgets idle sessions still takes their steps, which must not play on."""
        self._position = None

    @property
    def state(self) -> State:
        """Episode id and number of moves."""
        return self._state

    def _observe(self, phase: str, reward: float | None) -> CatchObservation:
        return CatchObservation(
            info_state=list(self._position.observation_tensor(0)),
            legal_actions=self._position.legal_actions(),
            game_phase=phase,
            current_player_id=self._position.current_player(),
            done=self._position.is_terminal(),
            reward=reward,
        )


def check_game() -> None:
    """Refuses to serve another game of OpenSpiel under the name of catch.

    Raises:
        ConfigError: OPENSPIEL_GAME names another game.
    """
    game = os.environ.get(GAME_VARIABLE, "catch")
    if game != "catch":
        raise ConfigError(
            f"this server plays catch only, {GAME_VARIABLE} is {game!r}", f"export {GAME_VARIABLE}=catch, or unset it"
        )


check_game()
app = build_app(CatchServer, CatchAction, CatchObservation, "openspiel_env")
