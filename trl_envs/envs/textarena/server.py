"""The server side of textarena's games, as OpenEnv's textarena_env answers.

Unlike the official server it honours `reset(seed=...)`, loads its dictionary once a process, downloads nothing, and
refuses a step before the first reset or after the end, which that one plays on with.
"""

from __future__ import annotations

import functools
import uuid
from typing import TYPE_CHECKING, Any

from trl_envs.envs.serving import build_app
from trl_envs.envs.textarena.games import GameFactory
from trl_envs.envs.textarena.settings import GameKind, GameSettings
from trl_envs.envs.textarena.signals import WordleSignals
from trl_envs.envs.textarena.wire import TextArenaAction, TextArenaMessage, TextArenaObservation, TextArenaState
from trl_envs.rollout.openenv_core import Environment

if TYPE_CHECKING:
    from fastapi import FastAPI

# textarena's id of the only game that the official server adds signals to.
SIGNALLED = "Wordle-v0"


class TextArenaServer(Environment):  # type: ignore[misc]
    """One session: a game of textarena at a time.

    Args:
        games: Makes them.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, games: GameFactory) -> None:
        super().__init__()
        self._games = games
        self._env_id = games.settings.env_id
        self._game: Any = None
        self._signals = WordleSignals()
        self._episode_id: str | None = None
        self._steps = 0
        self._last_info: dict[str, Any] = {}

    def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> TextArenaObservation:
        """Starts a new game.

        Args:
            seed: Decides the secret word or the board; None is a random one.
            episode_id: Name of the episode; None is a new one.
        """
        self._game = self._games.start(seed)
        self._signals = WordleSignals()
        self._episode_id = episode_id or str(uuid.uuid4())
        self._steps, self._last_info = 0, {}
        return self._observe()

    def step(self, action: TextArenaAction, timeout_s: float | None = None, **_: Any) -> TextArenaObservation:
        """Makes one move.

        Raises:
            ValueError: The game is over or was never started.
        """
        if self._game is None:
            raise ValueError("reset the environment before the first step")
        if self._game.state.done:
            raise ValueError("the game is over: reset the environment")
        done, info = self._game.step(action.message)
        self._steps += 1
        self._last_info = dict(info or {})
        observation = self._observe()
        observation.done = done
        if self._env_id == SIGNALLED:
            text = observation.messages[0].content if observation.messages else ""
            signals = self._signals.after(action.message, text, float(observation.reward or 0.0))
            for place in (observation.info, observation.metadata, self._last_info):
                place["reward_signals"] = signals
        return observation

    def close(self) -> None:
        """Ends the game. A server that forgets idle sessions still takes their steps, which must not play on."""
        self._game = None

    @property
    def state(self) -> TextArenaState:
        """The whole game. It names the secret word, as the official server's does: not for the model."""
        game_state = None if self._game is None else self._game.state
        return TextArenaState(
            episode_id=self._episode_id,
            step_count=self._steps,
            env_id=self._env_id,
            num_players=1,
            max_turns=self._games.settings.max_turns,
            turn=getattr(game_state, "turn", 0),
            last_reward=self._reward(),
            last_info=self._last_info,
            raw_state={} if game_state is None else _snapshot(game_state, self._last_info),
        )

    def _observe(self) -> TextArenaObservation:
        """The player's view: textarena's wrapper tells the whole game so far in one text."""
        player, text = self._game.get_observation()
        messages = [TextArenaMessage(sender_id=-1, content=text, category="MESSAGE")] if text else []
        turn = self._game.state.turn
        return TextArenaObservation(
            # As the official server has it: the game's text before the first turn, then its name.
            prompt=text.strip() if turn == 0 and text else self._env_id,
            messages=messages,
            current_player_id=player,
            legal_players=sorted(p for p in self._game.state.role_mapping if isinstance(p, int) and p >= 0),
            info=dict(self._game.state.step_info),
            metadata={
                "env_id": self._env_id,
                "turn": turn,
                "raw_messages": [message.model_dump() for message in messages],
            },
            reward=self._reward(),
            done=False,
        )

    def _reward(self) -> float:
        """0.0 until the game's end."""
        rewards = None if self._game is None else self._game.state.rewards
        return float(rewards[0]) if rewards else 0.0


def _snapshot(state: Any, last_info: dict[str, Any]) -> dict[str, Any]:
    names = ("turn", "game_state", "rewards", "done", "role_mapping", "game_info", "step_info")
    signals = {"reward_signals": last_info["reward_signals"]} if "reward_signals" in last_info else {}
    return {**{name: getattr(state, name) for name in names}, "logs": list(state.logs), **signals}


def build_textarena_app(kind: GameKind) -> FastAPI:
    """An app that serves the game that the process's variables name.

    The dictionaries are loaded here, so that a server that answers is one that plays.

    Raises:
        ConfigError: The variables ask for what can't be played.
    """
    games = GameFactory(GameSettings.from_environment(kind))
    return build_app(functools.partial(TextArenaServer, games), TextArenaAction, TextArenaObservation, "textarena_env")
