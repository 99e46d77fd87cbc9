"""The static preflight: every rule that config and machine can answer, with nothing started or written."""

from __future__ import annotations

from trl_envs.config.schema import TrainConfig
from trl_envs.plan.build import plan_problems
from trl_envs.plan.facts import MachineFacts
from trl_envs.plan.mode import device_of, launch_mode
from trl_envs.preflight.findings import Finding, errors
from trl_envs.preflight.grpo_rules import grpo_problems
from trl_envs.preflight.run_rules import number_problems, run_problems


def check_static(config: TrainConfig, facts: MachineFacts) -> list[Finding]:
    """Everything that can't work, all at once; empty if nothing speaks against the run so far.

    Args:
        config: What was asked for.
        facts: What the machine has.
    """
    mode, _ = launch_mode(config, facts)
    problems = [
        *plan_problems(config, facts),
        *grpo_problems(config.grpo, device_of(facts)),
        *run_problems(config, facts, mode.name),
    ]
    faulted = {problem.key for problem in problems}
    return errors([*problems, *(one for one in number_problems(config) if one.key not in faulted)])
