"""Do the names in the recipe exist, do they take their settings, and can the model be told of the tools?"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from trl_envs.agent.clock import EnvironmentClock
from trl_envs.agent.environments import build_factories, tools_of
from trl_envs.agent.targets import load_target, parameters_of
from trl_envs.agent.terms import RewardTerm, build_terms
from trl_envs.config.schema import EnvConfig, TrainConfig
from trl_envs.config.token import token_for
from trl_envs.errors import TrlEnvError
from trl_envs.preflight.probe_report import Collector

# A full server must be found out within seconds, and yet a slot that an earlier client just left be waited for.
CAPACITY_WAIT_S = 3.0


@dataclass
class Candidate:
    """One environment of the recipe, as far as it could be built.

    Args:
        name: Its name in the recipe.
        config: Its part of the config.
        urls: Base URLs of its servers.
        token: Token for them, or None.
        target: Its class as the recipe names it.
        build: Makes an instance as TRL would get it.
        schemas: JSON schema of each tool.
        terms: Its reward terms that could be built.
        opens_sessions: Whether its class takes trl-env's session opener; others open what they need themselves.
    """

    name: str
    config: EnvConfig
    urls: tuple[str, ...]
    token: str | None
    target: type
    build: Callable[[], Any]
    opens_sessions: bool
    schemas: dict[str, dict[str, Any]] = field(default_factory=dict)
    terms: list[RewardTerm] = field(default_factory=list)


def load_candidates(config: TrainConfig, servers: Mapping[str, Any], collector: Collector) -> list[Candidate]:
    """Imports and builds what the recipe names; an environment that can't be built is left out.

    Args:
        config: The run's config.
        servers: `environments` of plan.json.
        collector: Takes the findings.
    """
    found = []
    for name, env in config.envs.items():
        terms = _terms(name, env, collector)
        candidate = _candidate(name, env, config, servers[name], collector)
        if candidate is not None:
            candidate.terms = terms
            candidate.schemas = _schemas(candidate, collector)
            found.append(candidate)
    return found


def _candidate(
    name: str, env: EnvConfig, config: TrainConfig, server: Mapping[str, Any], collector: Collector
) -> Candidate | None:
    key = f"envs.{name}.environment"
    urls, token = tuple(server["urls"]), token_for(config.server) if server["token"] else None
    wait_s = min(config.rollout.capacity_wait_s, CAPACITY_WAIT_S)
    rollout = dataclasses.replace(config.rollout, capacity_wait_s=wait_s)
    try:
        build = build_factories({name: env}, {name: urls}, rollout, {name: token}, EnvironmentClock())[name]
        target = load_target(env.environment["_target_"], f"{key}._target_")
        build()
    except TrlEnvError as error:
        collector.refused(key, error)
        return None
    except Exception as error:
        collector.foreign(key, f"envs.{name}: {env.environment['_target_']} can't be built", error)
        return None
    opens_sessions = "open_session" in parameters_of(target)
    return Candidate(name, env, urls, token, target, build, opens_sessions)  # type: ignore[arg-type]


def _terms(name: str, env: EnvConfig, collector: Collector) -> list[RewardTerm]:
    terms = []
    for term, node in env.rewards.items():
        key = f"envs.{name}.rewards.{term}"
        try:
            terms += build_terms({name: dataclasses.replace(env, rewards={term: node})})
        except TrlEnvError as error:
            collector.refused(key, error)
        except Exception as error:
            collector.foreign(key, f"{key} can't be imported", error)
    return terms


def _schemas(candidate: Candidate, collector: Collector) -> dict[str, dict[str, Any]]:
    """Schemas of the tools, made by the function that the chat template uses."""
    from transformers.utils import get_json_schema

    key, owner = f"envs.{candidate.name}.environment", candidate.target.__name__
    instance = candidate.build()
    schemas = {}
    for tool in tools_of(type(instance)):
        if tool == "close":
            collector.error(
                key,
                f"{owner}.close is public, so the model could call it as a tool and end its own episode",
                f"rename it: {owner}._close",
            )
            continue
        try:
            schemas[tool] = get_json_schema(getattr(instance, tool))
        except Exception as error:
            # transformers raises its own two exceptions, and whatever resolving an annotation raises.
            collector.error(key, *_schema_problem(owner, tool, error))
    if not schemas and not tools_of(type(instance)):
        collector.error(
            key,
            f"{owner} has no public method, so the model would have no tool",
            "write a public method with a docstring, typed arguments and Args: for each tool",
        )
    return schemas


def _schema_problem(owner: str, tool: str, error: Exception) -> tuple[str, str]:
    reason = " ".join(str(part) for part in error.args).strip()
    private = f"if it is no tool, rename it {owner}._{tool}, since every public method is offered to the model"
    if "no docstring" in reason:
        return (
            f"{owner}.{tool} has no docstring, and every public method of an environment class is a tool",
            f"{private}; else say what it does, and describe each argument below a line `Args:`",
        )
    return (
        f"{owner}.{tool} can't be offered as a tool: {reason or type(error).__name__}",
        f"give each argument a type (name: str) and a line below `Args:` (name: What it is.); {private}",
    )


def sample_arguments(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments that fit a tool's schema, required ones only."""
    parameters = schema["function"]["parameters"]
    properties = parameters.get("properties", {})
    return {name: _sample(properties[name]) for name in parameters.get("required", ()) if name in properties}


def _sample(schema: Mapping[str, Any]) -> Any:
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    samples: dict[str, Any] = {"string": "a", "integer": 1, "number": 1.0, "boolean": True, "array": [], "object": {}}
    return samples.get(str(kind), "a")
