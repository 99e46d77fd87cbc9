"""What the tests of the episode loop share: the catch recipe on a real server, and the tiny agent that plays it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import torch

from trl_envs.agent.chat import ChatFormat
from trl_envs.agent.clock import EnvironmentClock
from trl_envs.agent.environments import build_factories
from trl_envs.agent.models import load_tokenizer
from trl_envs.config.compose import compose
from trl_envs.config.schema import EnvConfig, ModelConfig, RolloutConfig, TrainConfig
from trl_envs.evaluate.generation import Generator, load_generating_model
from trl_envs.evaluate.loop import Limits, Player
from trl_envs.evaluate.sampling import Sampling
from trl_envs.evaluate.tools import async_loop

TINY = ModelConfig(path="tiny")
NO_THINKING = {"enable_thinking": False}
SAMPLED = Sampling(temperature=1.0)
WHOLE_GAMES = Limits(max_completion_length=1024, max_tool_calling_iterations=12)


def catch_config(**overrides: Any) -> TrainConfig:
    arguments = [f"{key}={value}" for key, value in overrides.items()]
    return compose(["recipe=catch", "preset=smoke", *arguments]).config


def catch_factory(url: str, **rollout: Any) -> Callable[[], Any]:
    envs: dict[str, EnvConfig] = catch_config().envs
    settings = RolloutConfig(capacity_wait_s=5.0, **rollout)
    return build_factories(envs, {"catch": (url,)}, settings, {"catch": None}, EnvironmentClock())["catch"]


@contextmanager
def player(sampling: Sampling = SAMPLED, limits: Limits = WHOLE_GAMES, seed: int = 0) -> Iterator[Player]:
    """The tiny agent; its draws begin at the seed."""
    chat = ChatFormat(load_tokenizer(TINY), NO_THINKING)
    generator = Generator(load_generating_model(TINY, "cpu"), chat.tokenizer, sampling)
    with ThreadPoolExecutor(8) as workers, async_loop() as loop:
        torch.manual_seed(seed)
        yield Player(generator, chat, limits, workers, loop)
