"""A copy of a recipe's Space, large enough for the recipe's run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trl_envs.config.schema import TrainConfig
from trl_envs.errors import ConfigError
from trl_envs.plan.batch import build_batch
from trl_envs.plan.environments import server_variables
from trl_envs.plan.problem import refuse
from trl_envs.plan.servers import is_space_name, space_problems


@dataclass(frozen=True)
class SpaceCopy:
    """What is to be copied on the Hub.

    Args:
        source: owner/name of the Space.
        target: owner/name of the copy.
        environments: Environments of the recipe that the copy will serve.
        sessions: Sessions that their run holds at once.
        variables: Environment variables of the copy.
        whole_recipe: Whether these are all of the recipe's environments.
    """

    source: str
    target: str
    environments: tuple[str, ...]
    sessions: int
    variables: Mapping[str, str]
    whole_recipe: bool

    @property
    def overrides(self) -> str:
        """The overrides with which a run uses the copy."""
        modes = ["server=space"] if self.whole_recipe else [f"envs.{name}.server=space" for name in self.environments]
        return " ".join([*modes, *(f"envs.{name}.space={self.target}" for name in self.environments)])


def plan_copy(config: TrainConfig, target: str, name: str | None = None, sessions: int | None = None) -> SpaceCopy:
    """Plans the copy of the Space of one environment, and of those that share it.

    Args:
        config: What was asked for.
        target: owner/name of the copy.
        name: The environment; None takes the recipe's only one with a Space.
        sessions: Sessions at once; None takes what the recipe's run needs.

    Raises:
        ConfigError: No environment of that name, none with a Space, or several to choose from; a bad name.
        PreflightError: A Space's name or a batch that can't be.
    """
    if not is_space_name(target):
        raise ConfigError(f"--to {target} is no name of a Space, owner/name", "write --to OWNER/NAME")
    chosen = _chosen(config, name)
    refuse(space_problems(chosen, config.envs[chosen]))
    source = str(config.envs[chosen].space)
    if source == target:
        raise ConfigError(f"--to {target} is the Space itself", "name another one: --to OWNER/NAME")
    sharing = tuple(other for other, env in config.envs.items() if env.space == source)
    wanted = sessions or build_batch(config).sessions * len(sharing)
    variables = server_variables(config.envs[chosen], wanted)
    return SpaceCopy(source, target, sharing, wanted, variables, len(sharing) == len(config.envs))


def _chosen(config: TrainConfig, name: str | None) -> str:
    spaces = {other: env.space for other, env in config.envs.items() if env.space}
    if name is not None:
        if name not in config.envs:
            raise ConfigError(
                f"--env {name}: the recipe has {', '.join(config.envs)}",
                f"use one of them: --env {next(iter(config.envs))}",
            )
        return name
    if not spaces:
        first = next(iter(config.envs))
        raise ConfigError(
            f"no environment of recipe={config.recipe} names a Space",
            f"add envs.{first}.space=OWNER/NAME, the one to copy",
        )
    if len(set(spaces.values())) > 1:
        listed = ", ".join(f"{other} ({space})" for other, space in spaces.items())
        raise ConfigError(f"the recipe has several Spaces: {listed}", f"copy one at a time: --env {next(iter(spaces))}")
    return next(iter(spaces))
