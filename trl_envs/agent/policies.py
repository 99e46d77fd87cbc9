"""Scripted players of an environment class: its game's own, or one that calls any tool with anything that fits."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, cast

from trl_envs.agent.environments import tools_of
from trl_envs.agent.targets import find_beside
from trl_envs.envs.episode import Episode
from trl_envs.errors import ConfigError

Move = tuple[str, dict[str, Any]]
# Chooses a tool and its arguments by the last text, the episode so far and a generator; None ends the episode.
Policy = Callable[[str, Episode, random.Random], Move | None]

# Says in a sentence why the solver makes a move, before it is made: the last text, the episode so far, the move.
Explain = Callable[[str, Episode, Move], str]

# Names of the functions in a game's module `policies`.
RANDOM, SOLVER, EXPLAIN = "random_policy", "solver", "explain"
# Calls after which a player that knows nothing of the game gives up.
LONGEST_SAMPLED = 20
WORDS = ("a", "yes", "hello", "north", "crane", "slate", "one", "open the door")


def find_policy(target: type, name: str) -> Policy | None:
    """A game's own player: `name` in a module `policies` beside the class, or beside a class that it inherits from.

    Args:
        target: The environment class.
        name: `RANDOM` or `SOLVER`.
    """
    return cast("Policy | None", find_beside(target, "policies", name))


def scripted_player(target: type, name: str, environment: object) -> Policy:
    """The scripted player that somebody asked for with `--policy NAME`.

    Args:
        target: The environment class.
        name: `random` or `solver`.
        environment: An instance, whose tools are described where the game has no random player of its own.

    Raises:
        ConfigError: The game has no solver.
    """
    if name != SOLVER:
        return random_player(target, environment)
    found = find_policy(target, SOLVER)
    if found is None:
        raise ConfigError(
            f"--policy {SOLVER}: {target.__module__}.{target.__qualname__} has no solver: "
            f"there is no function {SOLVER} in a module policies beside it",
            f"ask for --policy random, or write one: {SOLVER}(observation, episode, rng) -> (tool, arguments) or None, "
            f"beside {RANDOM}",
        )
    return found


def find_explain(target: type) -> Explain | None:
    """The function by which a game's solver gives its reasons, found as the solver is.

    Args:
        target: The environment class.
    """
    return cast("Explain | None", find_beside(target, "policies", EXPLAIN))


def random_player(target: type, environment: object) -> Policy:
    """The game's own random player or, without one, any tool with arguments that fit its schema.

    Args:
        target: The environment class.
        environment: An instance, whose tools are described.

    Raises:
        Exception: transformers', of a tool that can't be described.
    """
    own = find_policy(target, RANDOM)
    if own is not None:
        return own
    # It loads transformers, which takes seconds and which games with a player of their own don't need.
    from transformers.utils import get_json_schema

    schemas = {name: get_json_schema(getattr(environment, name)) for name in tools_of(type(environment))}

    def sampled(observation: str, episode: Episode, rng: random.Random) -> Move | None:
        if episode.done or len(episode.events) >= LONGEST_SAMPLED:
            return None
        tool = rng.choice(sorted(schemas))
        return tool, sampled_arguments(schemas[tool], rng)

    return sampled


def sampled_arguments(schema: Mapping[str, Any], rng: random.Random) -> dict[str, Any]:
    """Arguments that fit a tool's schema; of those that may be left out each one half of the time.

    Args:
        schema: As `get_json_schema` makes it.
        rng: Chooses.
    """
    parameters = schema["function"]["parameters"]
    required = parameters.get("required", ())
    return {
        name: _sample(description, rng)
        for name, description in parameters.get("properties", {}).items()
        if name in required or rng.random() < 0.5
    }


def _sample(schema: Mapping[str, Any], rng: random.Random) -> Any:
    if schema.get("enum"):
        return rng.choice(list(schema["enum"]))
    kind = schema.get("type")
    kind = rng.choice(kind) if isinstance(kind, list) else kind
    samples: dict[str, Callable[[], Any]] = {
        "integer": lambda: rng.randint(0, 9),
        "number": lambda: round(rng.uniform(0, 10), 2),
        "boolean": lambda: rng.random() < 0.5,
        "array": lambda: [_sample(schema.get("items", {}), rng) for _ in range(rng.randint(0, 3))],
        "object": dict,
        "null": lambda: None,
    }
    return samples.get(str(kind), lambda: rng.choice(WORDS))()
