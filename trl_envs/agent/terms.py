"""Reward terms as TRL's reward functions: named `<environment>.<term>`, None where they don't apply.

A term is `term(episode, *, numbers...) -> float | None`. A function written for TRL (first parameter `environments`,
`completions` or `prompts`) is taken as it is, and sees only the samples of its own environment.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trl_envs.agent.environments import episode_of
from trl_envs.agent.targets import check_settings, load_target, parameters_of
from trl_envs.config.schema import EnvConfig
from trl_envs.envs.episode import Episode
from trl_envs.errors import ConfigError, TrainingFailed

_TRL_STYLE = ("environments", "completions", "prompts")


@dataclass(frozen=True)
class RewardTerm:
    """One term of one environment.

    Args:
        environment: Name of the environment in the recipe.
        name: Name of the term in the recipe.
        weight: Factor in the sum that GRPO compares.
        function: The term, bound to its numbers.
        trl_style: Whether it scores a batch, as TRL's reward functions do, rather than one episode.
    """

    environment: str
    name: str
    weight: float
    function: Callable[..., Any]
    trl_style: bool

    @property
    def full_name(self) -> str:
        """As in the metric `rewards/<full name>/mean`."""
        return f"{self.environment}.{self.name}"

    def score(self, episode: Episode) -> float | None:
        """The value for one episode; None if it is another environment's or lost.

        Raises:
            TrainingFailed: The term failed, or returned something that is no number.
        """
        if not _applies(self.environment, episode):
            return None
        try:
            return _number(self.function(episode), self.full_name)
        except TrainingFailed:
            raise
        except Exception as error:
            raise TrainingFailed(
                f"the reward term {self.full_name} failed: {type(error).__name__}: {error}",
                f"mend the function that envs.{self.environment}.rewards.{self.name}._target_ names",
            ) from error


def build_terms(envs: Mapping[str, EnvConfig]) -> list[RewardTerm]:
    """The terms of all environments, those of weight 0 left out.

    Raises:
        ConfigError: A term that isn't there, or doesn't take its numbers.
    """
    return [
        _build(name, term, node)
        for name, env in envs.items()
        for term, node in env.rewards.items()
        if node.get("weight", 1.0) != 0
    ]


def _build(environment: str, name: str, node: Mapping[str, Any]) -> RewardTerm:
    key = f"envs.{environment}.rewards.{name}"
    function = load_target(node["_target_"], f"{key}._target_")
    weight = node.get("weight", 1.0)
    if isinstance(weight, bool) or not isinstance(weight, int | float):
        raise ConfigError(f"{key}.weight={weight!r} is no number", f"set {key}.weight=1.0, or 0 to leave the term out")
    numbers = {number: value for number, value in node.items() if number not in ("_target_", "weight")}
    parameters = list(parameters_of(function))
    if not parameters:
        raise ConfigError(f"{key}: {node['_target_']} takes no episode", "its first parameter is the episode")
    trl_style = parameters[0] in _TRL_STYLE
    trl_columns = tuple(p for p in parameters if p not in numbers) if trl_style else (parameters[0],)
    check_settings(function, numbers, key, given=trl_columns)
    return RewardTerm(environment, name, float(weight), functools.partial(function, **numbers), trl_style)


def reward_function(term: RewardTerm) -> Callable[..., Any]:
    """The term as a function that TRL calls with a whole batch; None marks what it doesn't score.

    Its `__name__` is the term's full name, from which TRL makes the metric's name.
    """
    if not term.trl_style:

        def score(environments: Sequence[Any], **_: Any) -> list[float | None]:
            return [term.score(episode_of(environment)) for environment in environments]

        score.__name__ = term.full_name
        return score

    if inspect.iscoroutinefunction(term.function.func):  # type: ignore[attr-defined]

        async def score_async(**batch: Any) -> list[float | None]:
            rows, arguments = _own_rows(term, batch)
            return _scattered(term, await term.function(**arguments) if rows else [], rows, len(batch["environments"]))

        score_async.__name__ = term.full_name
        return score_async

    def score_batch(**batch: Any) -> list[float | None]:
        rows, arguments = _own_rows(term, batch)
        return _scattered(term, term.function(**arguments) if rows else [], rows, len(batch["environments"]))

    score_batch.__name__ = term.full_name
    return score_batch


def _own_rows(term: RewardTerm, batch: Mapping[str, Any]) -> tuple[list[int], dict[str, Any]]:
    """The samples that the term scores, and the batch cut down to them and to what the function takes."""
    size = len(batch["environments"])
    rows = [i for i, env in enumerate(batch["environments"]) if _applies(term.environment, episode_of(env))]
    parameters = parameters_of(term.function)
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    arguments: dict[str, Any] = {}
    for name, value in batch.items():
        if not takes_any and name not in parameters:
            continue
        if name == "log_extra":
            arguments[name] = functools.partial(_log_extra, value, rows, size)
        else:
            arguments[name] = [value[i] for i in rows] if isinstance(value, list) and len(value) == size else value
    return rows, arguments


def _log_extra(log: Callable[[str, list[Any]], None], rows: list[int], size: int, column: str, values: Any) -> None:
    full: list[Any] = [None] * size
    for row, value in zip(rows, values, strict=True):
        full[row] = value
    log(column, full)


def _scattered(term: RewardTerm, values: Any, rows: list[int], size: int) -> list[float | None]:
    if not hasattr(values, "__len__") or isinstance(values, str | bytes | Mapping):
        raise TrainingFailed(
            f"the reward term {term.full_name} returned {values!r:.80} for {len(rows)} episodes",
            "return a list with one value an episode, in order; None for what it doesn't score",
        )
    if len(values) != len(rows):
        raise TrainingFailed(
            f"the reward term {term.full_name} returned {len(values)} values for {len(rows)} episodes",
            "return one value an episode, in order; None for what it doesn't score",
        )
    full: list[float | None] = [None] * size
    for row, value in zip(rows, values, strict=True):
        full[row] = _number(value, term.full_name)
    return full


def _applies(environment: str, episode: Episode) -> bool:
    return episode.environment == environment and episode.lost is None


def _number(value: Any, name: str) -> float | None:
    if value is None:
        return None
    hint = "return a finite float, or None for unscored"
    try:
        # A text that happens to read as a number is a mistake somewhere else.
        number = math.nan if isinstance(value, str | bytes) else float(value)
    except (TypeError, ValueError) as error:
        raise TrainingFailed(f"the reward term {name} returned {value!r}, which is no number", hint) from error
    if not math.isfinite(number):
        raise TrainingFailed(f"the reward term {name} returned {value!r}, which is no number to compare", hint)
    return number
