"""Transcripts of scripted play through the real environment classes and the embedded servers."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import uvicorn
from omegaconf import OmegaConf
from transformers.utils.chat_template_utils import get_json_schema

from trl_envs import paths
from trl_envs.agent.tiny.corpus import call
from trl_envs.agent.tiny.players import PLAYERS
from trl_envs.envs.game import GameEnvironment, end_episode
from trl_envs.errors import StartupError
from trl_envs.rollout.session import SessionOpener

SERVER_START_TIMEOUT_S = 30.0
# Of the transcripts; the others have a prompt in other words.
OWN_PROMPT_SHARE = 0.7


@contextmanager
def embedded_server(app: str) -> Iterator[str]:
    """Serves an app such as `trl_envs.envs.echo.server:app` in this process.

    Yields:
        Its address, on a free port of the loopback interface.

    Raises:
        StartupError: It didn't come up.
    """
    module, _, attribute = app.partition(":")
    config = uvicorn.Config(getattr(import_module(module), attribute), host="127.0.0.1", port=0, log_level="error")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True, name=f"server of {app}")
    thread.start()
    give_up_at_s = time.monotonic() + SERVER_START_TIMEOUT_S
    while not server.started:
        if not thread.is_alive() or time.monotonic() > give_up_at_s:
            raise StartupError(f"the server {app} didn't start", f"try it alone: python -m uvicorn {app}")
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def recipe_prompt(game: str) -> str:
    """The prompt of the shipped recipe, from which the agent will be asked to play."""
    prompt = OmegaConf.load(paths.recipes_dir() / f"{game}.yaml").envs[game].prompt
    return str(prompt)


def tools_of(environment: GameEnvironment) -> list[dict[str, Any]]:
    """Schemas of an environment's tools, in the order in which TRL shows them to the model."""
    names = sorted(name for name in dir(type(environment)) if not name.startswith("_") and name != "reset")
    return [get_json_schema(getattr(environment, name)) for name in names]


def play_game(game: str, url: str, games: int, rng: random.Random) -> list[dict[str, Any]]:
    """Plays one game many times, one session after the other.

    Args:
        game: A key of PLAYERS.
        url: Its server.
        games: How many episodes.
        rng: Decides moves, prompts and episode seeds.

    Returns:
        Conversations, rows of `conversation`.
    """
    player = PLAYERS[game]
    environment = player.environment(SessionOpener([url]))
    tools, own = tools_of(environment), recipe_prompt(game)
    conversations = []
    for _ in range(games):
        prompt = own if rng.random() < OWN_PROMPT_SHARE else rng.choice(player.other_prompts)
        observation = environment.reset(seed=rng.randrange(2**31))
        messages: list[dict[str, Any]] = [{"role": "user", "content": prompt + observation}]
        while (move := player.policy(observation, environment.episode, rng)) is not None:
            name, arguments = move
            observation = getattr(environment, name)(**arguments)
            messages += [call(name, arguments), {"role": "tool", "name": name, "content": observation}]
        messages.append({"role": "assistant", "content": "Done."})
        end_episode(environment)
        conversations.append(conversation(messages, tools))
    return conversations


def conversation(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
    """A row for SFTTrainer. Tools go as JSON, since Arrow would give every tool the parameters of all others."""
    return {"messages": messages, "tools": json.dumps(tools), "chat_template_kwargs": {"enable_thinking": False}}


def play_all(games: dict[str, int], rng: random.Random) -> list[dict[str, Any]]:
    """Plays every game against its embedded server.

    Args:
        games: Number of episodes of each game.
        rng: Decides everything else.
    """
    conversations: list[dict[str, Any]] = []
    for game, number in games.items():
        with embedded_server(f"trl_envs.envs.{game}.server:app") as url:
            conversations += play_game(game, url, number, rng)
    return conversations
