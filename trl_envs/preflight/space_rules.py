"""What the Hub says against a run on Spaces before a single session is opened: too few of them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from trl_envs.config.schema import TrainConfig
from trl_envs.plan.batch import fitting_overrides
from trl_envs.plan.environments import with_spare
from trl_envs.plan.launch_plan import LaunchPlan
from trl_envs.plan.problem import Problem
from trl_envs.preflight.findings import Finding, errors


def capacity_findings(config: TrainConfig, plan: LaunchPlan, user: str | None, typed: Sequence[str]) -> list[Finding]:
    """Spaces whose own variables say that they are too small. One that says nothing is for the probe to try.

    Args:
        config: What was asked for.
        plan: With what the Hub said of the Spaces.
        user: The account that a copy would go to; None if nobody knows.
        typed: Overrides as typed.
    """
    problems = []
    for space in dict.fromkeys(env.space for env in plan.environments.values() if env.space):
        names = [name for name, env in plan.environments.items() if env.space == space]
        first = plan.environments[names[0]]
        needed = sum(plan.environments[name].sessions for name in names)
        if first.declared is None or first.declared >= needed:
            continue
        if first.shared:
            # The overrides of a resumed run aren't those that its number of sessions follows from.
            sessions = None if any(word.startswith("recipe=") for word in typed) else needed
            more = f"take a copy of your own: {copy_command(config, names[0], space, user, typed, sessions)}"
        else:
            more = f"raise it: hf spaces variables add {space} -e MAX_CONCURRENT_ENVS={with_spare(needed)}"
        fewer = fitting_overrides(config, first.declared // len(names))
        problems.append(
            Problem(
                f"envs.{names[0]}.space",
                f"{' and '.join(names)}: {needed} sessions needed at once, {first.declared} found: that is "
                f"MAX_CONCURRENT_ENVS of the Space {space}",
                f"{more}; or ask for fewer: {fewer}" if fewer else more,
            )
        )
    return errors(problems)


def copy_command(
    config: TrainConfig, name: str, space: str, user: str | None, typed: Sequence[str] = (), sessions: int | None = None
) -> str:
    """The command that copies an environment's Space, with room for the run.

    Args:
        config: What was asked for.
        name: The environment.
        space: Its Space.
        user: The account that the copy goes to; None if nobody knows.
        typed: Overrides as typed: what the number of sessions follows from is repeated.
        sessions: The number of sessions, where the overrides aren't known.
    """
    recipe = next((word for word in typed if word.startswith("recipe=")), f"recipe={config.recipe}")
    repeated = [
        word for word in typed if word.lstrip("+~").startswith(("preset=", "grpo.", "launch.processes", "envs."))
    ]
    several = len({env.space for env in config.envs.values() if env.space}) > 1
    options = ["--env", name] if several else []
    options += ["--sessions", str(sessions)] if sessions else []
    target = f"{user or 'USER'}/{space.partition('/')[2]}"
    return shlex.join(["trl-env", "space", "duplicate", recipe, *repeated, *options, "--to", target])
