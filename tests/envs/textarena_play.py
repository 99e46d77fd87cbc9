"""What the tests of textarena's games share: their servers, and episodes played as TRL plays them."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.loopback import LiveServer, serving_app, state_of
from trl_envs.envs.episode import Episode
from trl_envs.envs.game import GameEnvironment
from trl_envs.envs.textarena.games import GameFactory
from trl_envs.envs.textarena.server import TextArenaServer
from trl_envs.envs.textarena.settings import GameSettings
from trl_envs.envs.textarena.wire import TextArenaAction, TextArenaObservation
from trl_envs.rollout.openenv_core import create_fastapi_app

Policy = Callable[[str, Episode, random.Random], tuple[str, dict[str, Any]] | None]


@functools.cache
def games(env_id: str, **keywords: Any) -> GameFactory:
    """One factory of a kind for all tests, as a server has one: building Wordle's takes seconds."""
    return GameFactory(GameSettings(env_id, None, keywords))


@contextmanager
def playing(env_id: str, sessions: int = 8, **keywords: Any) -> Iterator[LiveServer]:
    make = functools.partial(TextArenaServer, games(env_id, **keywords))
    with serving_app(
        lambda: create_fastapi_app(make, TextArenaAction, TextArenaObservation, max_concurrent_envs=sessions)
    ) as server:
        yield server


def play(environment: GameEnvironment, policy: Policy, seed: int, rng: random.Random) -> list[str]:
    """All texts that the model would see in an episode."""
    seen = [environment.reset(seed=seed)]
    while (call := policy(seen[-1], environment.episode, rng)) is not None:
        tool, arguments = call
        seen.append(getattr(environment, tool)(**arguments))
    assert environment.episode.lost is None
    return seen


def secret_of(environment: GameEnvironment) -> str:
    """Wordle's secret word, from the server's state."""
    assert environment._session is not None
    word: str = state_of(environment._session)["raw_state"]["game_state"]["secret_word"]
    return word
