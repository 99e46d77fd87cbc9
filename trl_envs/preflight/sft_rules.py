"""The static preflight of a warm-up: what config, machine and data say, with nothing started or written."""

from __future__ import annotations

from typing import Any

from trl_envs.config.schema import TrainConfig
from trl_envs.config.sft_fields import SFT_OWNED, sft_fields
from trl_envs.plan.facts import MachineFacts
from trl_envs.plan.mode import device_of
from trl_envs.plan.problem import Problem
from trl_envs.plan.sft import as_sft, sft_problems
from trl_envs.preflight.findings import Finding, errors
from trl_envs.preflight.grpo_rules import trainer_problems, value_problems
from trl_envs.preflight.grpo_types import enum_of
from trl_envs.preflight.run_rules import run_problems

# Of an environment: what the model is shown and what its class makes of the game.
SHOWN = ("environment", "prompt", "system_prompt")


def check_sft(config: TrainConfig, facts: MachineFacts) -> list[Finding]:
    """Everything that keeps a warm-up from being made here, all at once.

    Args:
        config: What was asked for.
        facts: What the machine has.
    """
    fields = sft_fields()
    problems = []
    for name, value in config.sft.items():
        if name in fields and name not in SFT_OWNED:
            problems += [as_sft(problem) for problem in value_problems(fields[name], value, enum_of(fields[name]))]
    faulty = {problem.key for problem in problems}
    combined = [as_sft(problem) for problem in trainer_problems(config.sft, device_of(facts))]
    problems += [problem for problem in combined if problem.key not in faulty]
    return errors([*problems, *sft_problems(config, facts), *run_problems(config, facts, "single")])


def check_games(config: TrainConfig, folder: str, made_from: dict[str, Any]) -> list[Finding]:
    """What is wrong with collected games for this recipe: the model would learn what GRPO never shows it.

    Args:
        config: The recipe.
        folder: Where they are.
        made_from: What they were made from.
    """
    problems = []
    again = f"collect anew: trl-env collect recipe={config.recipe} --out FOLDER"
    for name, was in made_from["envs"].items():
        env = config.envs.get(name)
        if env is None:
            known = ", ".join(config.envs)
            message = f"{folder} holds games of {name}, and the recipe {config.recipe} has {known}"
            problems.append(Problem(f"envs.{name}", message, again))
            continue
        for key in SHOWN:
            if was[key] != getattr(env, key):
                message = f"envs.{name}.{key} isn't that of the games in {folder}, so GRPO would show something else"
                problems.append(Problem(f"envs.{name}.{key}", message, again))
    return errors(problems)
