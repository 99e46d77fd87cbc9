"""Who plays in an evaluation: a model by transformers or vLLM, a model behind an endpoint, or a script."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trl_envs.agent.policies import SOLVER, scripted_player
from trl_envs.agent.targets import load_target
from trl_envs.config.grpo_fields import grpo_value
from trl_envs.config.schema import TrainConfig
from trl_envs.evaluate.loop import Limits, Player, TurnSource
from trl_envs.evaluate.scripted import ScriptedPlayer
from trl_envs.evaluate.tools import async_loop
from trl_envs.results.headstart import wait_for_go
from trl_envs.results.rundir import RunDirectory

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trl_envs.evaluate.endpoint import EndpointPlayer
    from trl_envs.evaluate.sampling import Sampling

# A server may offer more sessions than a model's cache has room for sequences.
LARGEST_BATCH = 64
TRANSFORMERS, VLLM = "transformers", "vllm"
POLICIES = ("random", SOLVER)


@dataclass(frozen=True)
class Asked:
    """Which player was asked for.

    Args:
        backend: What generates where the model is played here: transformers or vllm.
        policy: `random` or `solver`; None for a model.
        base_url: Of an OpenAI-compatible endpoint that has the model; None plays it here.
        key_variable: Environment variable that holds the endpoint's key.
        plain: Whether the endpoint gets only what OpenAI's own API knows.
    """

    backend: str = TRANSFORMERS
    policy: str | None = None
    base_url: str | None = None
    key_variable: str = "OPENAI_API_KEY"
    plain: bool = False

    @property
    def described(self) -> str:
        """What generates, or the policy."""
        return self.policy or self.base_url or self.backend


def limits_of(config: TrainConfig) -> Limits:
    """The limits of the run's episodes."""
    return Limits(
        grpo_value(config.grpo, "max_completion_length"), grpo_value(config.grpo, "max_tool_calling_iterations")
    )


def threads_of(config: TrainConfig, stack: ExitStack) -> ThreadPoolExecutor:
    """Threads in which environments work; `stack` ends them."""
    return stack.enter_context(ThreadPoolExecutor(config.rollout.concurrency or LARGEST_BATCH))


def build_player(
    config: TrainConfig,
    device: str,
    sampling: Sampling,
    stack: ExitStack,
    *,
    backend: str = TRANSFORMERS,
    hold_for: RunDirectory | None = None,
) -> Player:
    """The config's model, ready to play.

    Args:
        config: The run's config.
        device: cpu, mps or cuda.
        sampling: How tokens are chosen.
        stack: Ends its threads.
        backend: What generates: transformers or vllm.
        hold_for: The run for whose go to wait before anything but libraries is loaded; None doesn't wait.

    Raises:
        ConfigError: It can't be loaded.
    """
    from transformers.utils.logging import disable_progress_bar

    from trl_envs.agent.chat import ChatFormat
    from trl_envs.agent.models import load_tokenizer
    from trl_envs.evaluate.generation import Generator, load_generating_model

    # What takes seconds to import comes before the wait.
    if hold_for is not None:
        wait_for_go(hold_for)
    disable_progress_bar()
    chat = ChatFormat(load_tokenizer(config.model), grpo_value(config.grpo, "chat_template_kwargs") or {})
    source: TurnSource
    if backend == VLLM:
        from trl_envs.evaluate.vllm_generation import VllmGenerator, load_engine

        source = VllmGenerator(load_engine(config.model, config.eval.seed), chat.tokenizer, sampling, config.eval.seed)
    else:
        source = Generator(load_generating_model(config.model, device), chat.tokenizer, sampling)
    return Player(source, chat, limits_of(config), threads_of(config, stack), stack.enter_context(async_loop()))


def build_scripted(
    config: TrainConfig, environment: str, policy: str, factory: Callable[[], Any], stack: ExitStack
) -> ScriptedPlayer:
    """A scripted player of one environment.

    Args:
        config: The run's config.
        environment: Name of the environment in the recipe.
        policy: `random` or `solver`.
        factory: Makes instances of the environment.
        stack: Ends its threads.

    Raises:
        ConfigError: The game has no solver.
    """
    target = load_target(config.envs[environment].environment["_target_"], f"envs.{environment}.environment._target_")
    found = scripted_player(target, policy, factory())  # type: ignore[arg-type]
    return ScriptedPlayer(found, config.eval.seed, threads_of(config, stack), stack.enter_context(async_loop()))


def build_endpoint_player(config: TrainConfig, asked: Asked, sampling: Sampling, stack: ExitStack) -> EndpointPlayer:
    """A model behind an OpenAI-compatible endpoint.

    Args:
        config: The run's config; its `model.path` is the model's name there.
        asked: Where it is, and by which variable its key is found.
        sampling: How tokens are chosen.
        stack: Ends its threads and connections.
    """
    from trl_envs.evaluate.endpoint import Endpoint, EndpointPlayer

    assert asked.base_url is not None
    endpoint = Endpoint(
        asked.base_url, config.model.path, os.environ.get(asked.key_variable), asked.key_variable, plain=asked.plain
    )
    player = EndpointPlayer(
        endpoint,
        sampling,
        limits_of(config),
        grpo_value(config.grpo, "chat_template_kwargs") or {},
        config.eval.seed,
        threads_of(config, stack),
        stack.enter_context(async_loop()),
    )
    stack.callback(player.close)
    return player
