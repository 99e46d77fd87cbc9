"""The arithmetic of a GRPO batch: how many episodes are played at once, and so how many sessions a run needs."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Any

from trl_envs.config.grpo_fields import grpo_value
from trl_envs.config.schema import TrainConfig
from trl_envs.plan.mix import mix_problems
from trl_envs.plan.problem import Problem, refuse

# The fields of which this file says what they may be.
BATCH_FIELDS = (
    "per_device_train_batch_size",
    "gradient_accumulation_steps",
    "steps_per_generation",
    "generation_batch_size",
    "num_generations",
    "num_generations_eval",
    "per_device_eval_batch_size",
)


@dataclass(frozen=True)
class BatchPlan:
    """Sizes of one generation, by the rules of GRPOConfig.__post_init__ (TRL 1.16).

    Args:
        generation_batch: Episodes played at once, over all training processes.
        num_generations: Episodes a group, all of the same prompt and episode seed.
        per_process: Episodes played at once by one training process.
        processes: Training processes.
        prompts: Rows of the data set.
        steps: Optimizer steps of the run; None if it isn't bounded by max_steps.
        evaluation: Episodes of an evaluation batch of one process; 0 if there is none. It counts when
            per_device_eval_batch_size is set by hand, or TRL's evaluation is on (eval_strategy other than "no").
    """

    generation_batch: int
    num_generations: int
    per_process: int
    processes: int
    prompts: int
    steps: int | None
    evaluation: int = 0

    @property
    def groups(self) -> int:
        """Groups a generation batch."""
        return self.generation_batch // self.num_generations

    @property
    def sessions(self) -> int:
        """Sessions open at once with the server of one environment, if a whole batch is played on it."""
        return self.processes * max(self.per_process, self.evaluation)


def build_batch(config: TrainConfig) -> BatchPlan:
    """The batch that TRL will make of the config.

    Raises:
        PreflightError: Sizes that TRL would refuse, or with which it would train no step; all of them.
    """
    problems = batch_problems(config)
    refuse(problems)
    grpo, world = config.grpo, config.launch.processes
    batch = _generation_batch(grpo, world)
    steps = grpo_value(grpo, "max_steps")
    return BatchPlan(
        batch,
        grpo_value(grpo, "num_generations"),
        batch // world,
        world,
        _prompts(config),
        steps if _is_size(steps) else None,
        grpo_value(grpo, "per_device_eval_batch_size") if _has_evaluation(grpo) else 0,
    )


def batch_problems(config: TrainConfig) -> list[Problem]:
    """Sizes that TRL would refuse, or with which it would train no step."""
    grpo, world = config.grpo, config.launch.processes
    problems = [_size_problem(grpo, name) for name in _sizes_in_use(grpo) if not _is_size(grpo_value(grpo, name))]
    total, per_generation = grpo_value(grpo, "generation_batch_size"), grpo_value(grpo, "steps_per_generation")
    if total is not None and per_generation is not None:
        problems.append(
            Problem(
                "grpo.generation_batch_size",
                f"grpo.generation_batch_size={total} and grpo.steps_per_generation={per_generation} both set the "
                "generation batch",
                "set one of them to null: grpo.steps_per_generation=null",
            )
        )
    if problems or world < 1:
        return problems
    divided = _division_problems(grpo, world)
    groups = _generation_batch(grpo, world) // grpo_value(grpo, "num_generations")
    mixed = mix_problems(config.mix, config.envs, groups) if config.mix and not divided else ()
    return [*divided, *_prompt_problems(config), *mixed, *_evaluation_problems(grpo, world)]


def _division_problems(grpo: dict[str, Any], world: int) -> list[Problem]:
    device, generations = grpo_value(grpo, "per_device_train_batch_size"), grpo_value(grpo, "num_generations")
    batch = _generation_batch(grpo, world)
    problems = []
    if batch % (device * world):
        problems.append(
            Problem(
                "grpo.generation_batch_size",
                f"the generation batch of {batch} can't be split over {world} process(es) of {device} episodes",
                f"make grpo.generation_batch_size a multiple of {device * world}",
            )
        )
    if generations < 2:
        problems.append(
            Problem(
                "grpo.num_generations",
                f"grpo.num_generations={generations}: a group needs at least 2 episodes to compare",
                "set grpo.num_generations=4 or more",
            )
        )
    elif batch % generations:
        problems.append(
            Problem(
                "grpo.num_generations",
                f"the generation batch of {batch} can't be split into groups of grpo.num_generations={generations}",
                f"set grpo.num_generations={_divisor(batch, generations)}, or another batch size",
            )
        )
    return problems


def _prompt_problems(config: TrainConfig) -> list[Problem]:
    """TRL's sampler drops what doesn't fill a generation batch, so that too few prompts train no step at all."""
    groups = _generation_batch(config.grpo, config.launch.processes) // grpo_value(config.grpo, "num_generations")
    prompts = _prompts(config)
    if prompts >= groups:
        return []
    key = f"envs.{next(iter(config.envs), 'NAME')}.episodes"
    return [
        Problem(
            key,
            f"{key}: {prompts} episode(s) in the data set, and one generation batch takes {groups}: "
            "TRL would train no step and call it success",
            f"raise {key} to {groups} or more: {key}={groups}",
        )
    ]


def _evaluation_problems(grpo: dict[str, Any], world: int) -> list[Problem]:
    if not evaluates(grpo):
        return []
    generations = grpo_value(grpo, "num_generations_eval") or grpo_value(grpo, "num_generations")
    batch = grpo_value(grpo, "per_device_eval_batch_size")
    if (batch * world) % generations == 0:
        return []
    return [
        Problem(
            "grpo.per_device_eval_batch_size",
            f"grpo.per_device_eval_batch_size={batch} on {world} process(es) can't be split into groups of "
            f"{generations}",
            f"set grpo.per_device_eval_batch_size={generations} or grpo.num_generations_eval=1",
        )
    ]


def evaluates(grpo: dict[str, Any]) -> bool:
    """Whether TRL's own evaluation is on. YAML reads an unquoted `no` as false."""
    return grpo_value(grpo, "eval_strategy") not in ("no", None, False)


def fitting_overrides(config: TrainConfig, sessions: int) -> str:
    """Overrides with which an environment needs at most so many sessions; empty if no batch is that small.

    Args:
        config: A config with a batch that works, but is too large.
        sessions: Sessions that there are for each environment.
    """
    grpo, world = config.grpo, config.launch.processes
    share = sessions // world
    generations = min(grpo_value(grpo, "num_generations"), share * world)
    # The largest batch of one process that fits and can be split into whole groups, over all processes.
    per_process = next((size for size in range(share, 0, -1) if size * world % max(generations, 1) == 0), 0)
    if generations < 2 or not per_process:
        return ""
    device = gcd(per_process, grpo_value(grpo, "per_device_train_batch_size"))
    wanted = {
        "generation_batch_size": None,
        "steps_per_generation": None,
        "num_generations": generations,
        "per_device_train_batch_size": device,
        "gradient_accumulation_steps": per_process // device,
    }
    if _has_evaluation(grpo):
        wanted["per_device_eval_batch_size"] = min(generations, share)
    changed = {name: value for name, value in wanted.items() if grpo_value(grpo, name) != value}
    return " ".join(f"grpo.{name}={'null' if value is None else value}" for name, value in changed.items())


def _has_evaluation(grpo: dict[str, Any]) -> bool:
    return "per_device_eval_batch_size" in grpo or evaluates(grpo)


def _sizes_in_use(grpo: dict[str, Any]) -> list[str]:
    names = ["per_device_train_batch_size", "num_generations", "gradient_accumulation_steps"]
    names += [n for n in ("generation_batch_size", "steps_per_generation") if grpo_value(grpo, n) is not None]
    if _has_evaluation(grpo):
        names.append("per_device_eval_batch_size")
    if grpo_value(grpo, "num_generations_eval") is not None:
        names.append("num_generations_eval")
    return names


def _generation_batch(grpo: dict[str, Any], world: int) -> int:
    total = grpo_value(grpo, "generation_batch_size")
    if total is not None:
        return int(total)
    steps = grpo_value(grpo, "steps_per_generation")
    if steps is None:
        steps = grpo_value(grpo, "gradient_accumulation_steps")
    return int(grpo_value(grpo, "per_device_train_batch_size") * world * steps)


def _prompts(config: TrainConfig) -> int:
    return sum(env.episodes for env in config.envs.values())


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _size_problem(grpo: dict[str, Any], name: str) -> Problem:
    value = grpo_value(grpo, name)
    return Problem(
        f"grpo.{name}", f"grpo.{name}={value!r} is not a whole number above 0", f"set grpo.{name}=4, for instance"
    )


def _divisor(batch: int, wanted: int) -> int:
    """The divisor of the batch, 2 or more, nearest to what was wanted."""
    divisors = [number for number in range(2, batch + 1) if batch % number == 0] or [batch]
    return min(divisors, key=lambda number: abs(number - wanted))
