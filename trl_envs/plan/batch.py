"""The arithmetic of a GRPO batch: how many episodes are played at once, and so how many sessions a run needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trl_envs.config.grpo_fields import grpo_value
from trl_envs.config.schema import TrainConfig
from trl_envs.errors import PreflightError


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
    """

    generation_batch: int
    num_generations: int
    per_process: int
    processes: int
    prompts: int
    steps: int | None

    @property
    def groups(self) -> int:
        """Groups a generation batch."""
        return self.generation_batch // self.num_generations

    @property
    def sessions(self) -> int:
        """Sessions open at once with the server of one environment, if a whole batch is played on it."""
        return self.processes * self.per_process


def build_batch(config: TrainConfig) -> BatchPlan:
    """The batch that TRL will make of the config.

    Raises:
        PreflightError: Sizes that TRL would refuse, or with which it would train no step.
    """
    sizes = {name: _size(config.grpo, name) for name in ("per_device_train_batch_size", "num_generations")}
    device, generations = sizes["per_device_train_batch_size"], sizes["num_generations"]
    world = config.launch.processes
    batch = _generation_batch(config.grpo, device * world)
    if generations < 2:
        raise PreflightError(
            f"grpo.num_generations={generations}: a group needs at least 2 episodes to compare",
            "set grpo.num_generations=4 or more",
        )
    if batch % (device * world):
        raise PreflightError(
            f"the generation batch of {batch} can't be split over {world} process(es) of {device} episodes",
            f"make grpo.generation_batch_size a multiple of {device * world}",
        )
    if batch % generations:
        raise PreflightError(
            f"the generation batch of {batch} can't be split into groups of grpo.num_generations={generations}",
            f"set grpo.num_generations={_divisor(batch, generations)}, or another batch size",
        )
    prompts = sum(env.episodes for env in config.envs.values())
    if prompts < batch // generations:
        raise PreflightError(
            f"{prompts} episode(s) in the data set, and one generation batch takes {batch // generations}: "
            "TRL would train no step and call it success",
            f"raise envs.{next(iter(config.envs))}.episodes to {batch // generations} or more",
        )
    steps = grpo_value(config.grpo, "max_steps")
    bounded = int(steps) if isinstance(steps, int) and steps > 0 else None
    return BatchPlan(batch, generations, batch // world, world, prompts, bounded)


def _generation_batch(grpo: dict[str, Any], per_step: int) -> int:
    batch, steps = grpo_value(grpo, "generation_batch_size"), grpo_value(grpo, "steps_per_generation")
    if batch is not None and steps is not None:
        raise PreflightError(
            f"grpo.generation_batch_size={batch} and grpo.steps_per_generation={steps} both set the generation batch",
            "set one of them to null",
        )
    if batch is not None:
        return _size(grpo, "generation_batch_size")
    name = "steps_per_generation" if steps is not None else "gradient_accumulation_steps"
    return per_step * _size(grpo, name)


def _size(grpo: dict[str, Any], name: str) -> int:
    value = grpo_value(grpo, name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise PreflightError(f"grpo.{name}={value!r} is not a whole number above 0", f"set grpo.{name}=4, for instance")
    return value


def _divisor(batch: int, wanted: int) -> int:
    """The divisor of the batch, 2 or more, nearest to what was wanted."""
    divisors = [number for number in range(2, batch + 1) if batch % number == 0] or [batch]
    return min(divisors, key=lambda number: abs(number - wanted))
