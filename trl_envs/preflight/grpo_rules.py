"""Rules over the values under `grpo`: what GRPOConfig takes without a word, and what then fails hours later."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from trl_envs.config.grpo_fields import OWNED, GrpoField, grpo_fields, grpo_value
from trl_envs.config.suggest import nearest
from trl_envs.plan.batch import BATCH_FIELDS, evaluates
from trl_envs.plan.problem import Problem
from trl_envs.preflight.grpo_types import enum_of, fits, wanted
from trl_envs.preflight.installed_source import compared_values

# Fields whose values stand in GRPOTrainer's comparisons and nowhere else.
COMPARED_FIELDS = (
    "loss_type",
    "scale_rewards",
    "importance_sampling_level",
    "multi_objective_aggregation",
    "vllm_importance_sampling_mode",
)


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`; `above` leaves out `low` itself.

    Args:
        low: The least, or what it must be above.
        high: The greatest; None is unbounded.
        above: Whether `low` itself is too little.
        example: A value to suggest.
    """

    low: float
    high: float | None = None
    above: bool = False
    example: float = 1

    def holds(self, value: float) -> bool:
        """Whether a number lies in it; NaN doesn't."""
        return (value > self.low if self.above else value >= self.low) and (self.high is None or value <= self.high)

    def __str__(self) -> str:
        upper = "" if self.high is None else f" and at most {self.high:g}"
        return f"{'above' if self.above else 'at least'} {self.low:g}{upper}"


RANGES = {
    "temperature": Range(0, above=True),
    "top_p": Range(0, 1, above=True),
    "top_k": Range(0, example=0),
    "min_p": Range(0, 1, example=0.05),
    "repetition_penalty": Range(0, above=True),
    "learning_rate": Range(0, 1, above=True, example=1e-6),
    "max_completion_length": Range(1, example=1024),
    "max_tool_calling_iterations": Range(1, example=10),
    "num_iterations": Range(1),
    "beta": Range(0, example=0),
    "epsilon": Range(0, above=True, example=0.2),
    "epsilon_high": Range(0, above=True, example=0.28),
    "delta": Range(0, above=True, example=1.5),
    "top_entropy_quantile": Range(0, 1),
    "warmup_steps": Range(0, example=0),
    "weight_decay": Range(0, example=0),
    "max_grad_norm": Range(0, example=1),
    "per_device_train_batch_size": Range(1),
    "gradient_accumulation_steps": Range(1),
    "max_length": Range(1, example=1024),
    "logging_steps": Range(0, above=True),
    "save_steps": Range(0, above=True, example=100),
    "save_total_limit": Range(1, example=2),
    "dataloader_num_workers": Range(0, example=0),
    "vllm_gpu_memory_utilization": Range(0, 1, above=True, example=0.3),
    "vllm_tensor_parallel_size": Range(1),
    "vllm_max_model_length": Range(1, example=8192),
}


def grpo_problems(config_grpo: dict[str, Any], device: str) -> list[Problem]:
    """What is wrong with the values under `grpo`, batch sizes aside (plan/batch.py).

    Args:
        config_grpo: Fields as the recipe and the command line set them.
        device: cpu, mps or cuda.
    """
    fields = grpo_fields()
    problems = []
    for name, value in config_grpo.items():
        if name not in BATCH_FIELDS and name in fields and name not in OWNED:
            values = compared_values(name) if name in COMPARED_FIELDS else enum_of(fields[name])
            problems += list(value_problems(fields[name], value, values))
    faulty = {problem.key for problem in problems}
    return [*problems, *(p for p in _combined_problems(config_grpo, device) if p.key not in faulty)]


def value_problems(field: GrpoField, value: Any, values: tuple[str, ...]) -> Iterator[Problem]:
    """At most one problem for a value: its type, else its meaning.

    Args:
        field: Its field.
        value: As it is set under `grpo`.
        values: The texts that the field takes, if they are known.
    """
    key = f"grpo.{field.name}"
    if not fits(field, value):
        yield Problem(key, f"{key}={value!r}: GRPOConfig takes {wanted(field)}", _type_hint(key, field, value, values))
    elif values and isinstance(value, str) and value not in values:
        yield Problem(
            key,
            f"{key}={value!r} is none of {', '.join(values)}",
            f"did you mean {key}={_meant(value, values)}?",
        )
    elif field.name in RANGES and isinstance(value, int | float) and not RANGES[field.name].holds(value):
        allowed = RANGES[field.name]
        yield Problem(key, f"{key}={value!r} must be {allowed}", f"set {key}={allowed.example:g}")


def _meant(value: str, values: Sequence[str]) -> str | None:
    """The value that was probably meant: the first that begins like it, such as adamw_torch for adamw."""
    return next((known for known in values if known.startswith(value)), nearest(value, values))


def _type_hint(key: str, field: GrpoField, value: Any, values: tuple[str, ...]) -> str:
    if value is False and "no" in values:
        return f'YAML reads a bare `no` as false: write "no" in quotes, or {key}=no on the command line'
    example = values[0] if values else field.default
    if example is None and field.name in RANGES:
        example = f"{RANGES[field.name].example:g}"
    return (
        f"set {key}={str(example).lower() if isinstance(example, bool) else example}"
        if example is not None
        else (f"leave {key} out, or see GRPOConfig in TRL's documentation")
    )


def _combined_problems(grpo: dict[str, Any], device: str) -> Iterator[Problem]:
    """What is wrong with several values together, or with a value and the machine."""
    yield from trainer_problems(grpo, device)
    if grpo_value(grpo, "auto_find_batch_size") is True:
        message = "grpo.auto_find_batch_size=true: GRPO needs whole groups, and TRL refuses it"
        yield Problem("grpo.auto_find_batch_size", message, "set grpo.auto_find_batch_size=false")
    longest, completion = grpo_value(grpo, "vllm_max_model_length"), grpo_value(grpo, "max_completion_length")
    if isinstance(longest, int) and isinstance(completion, int) and longest <= completion:
        yield Problem(
            "grpo.vllm_max_model_length",
            f"grpo.vllm_max_model_length={longest} leaves no room for a prompt before "
            f"grpo.max_completion_length={completion}",
            f"set grpo.vllm_max_model_length={2 * completion} or grpo.max_completion_length={max(longest // 2, 1)}",
        )


def trainer_problems(grpo: dict[str, Any], device: str) -> Iterator[Problem]:
    """What is wrong with values together that every trainer of transformers has."""
    yield from _zero_steps(grpo)
    if evaluates(grpo):
        yield Problem(
            "grpo.eval_strategy",
            f"grpo.eval_strategy={grpo_value(grpo, 'eval_strategy')!r}: TRL's own evaluation needs a data set of its "
            "own, which a recipe doesn't have",
            "set grpo.eval_strategy=no",
        )
    if grpo.get("bf16") is True and grpo.get("fp16") is True:
        message = "grpo.bf16=true and grpo.fp16=true: at most one of them can be"
        yield Problem("grpo.fp16", message, "set grpo.fp16=false")
    for name in ("fp16", "bf16") if device == "cpu" else ():
        if grpo.get(name) is True:
            message = f"grpo.{name}=true, and no GPU is visible: a CPU trains in float32"
            yield Problem(f"grpo.{name}", message, f"set grpo.{name}=false")


def _zero_steps(grpo: dict[str, Any]) -> Iterator[Problem]:
    """Runs that TRL would end at step 0, or whose length it would take from another field."""
    steps, epochs = grpo_value(grpo, "max_steps"), grpo_value(grpo, "num_train_epochs")
    if not isinstance(steps, int) or isinstance(steps, bool):
        return
    if steps == 0:
        yield Problem(
            "grpo.max_steps",
            "grpo.max_steps=0: TRL takes 0 for `not set`, and would train for grpo.num_train_epochs",
            "set grpo.max_steps=20, or -1 to go by grpo.num_train_epochs",
        )
    elif steps < 0 and isinstance(epochs, int | float) and not epochs > 0:
        yield Problem(
            "grpo.num_train_epochs",
            f"grpo.num_train_epochs={epochs}: nothing would be trained",
            "set grpo.num_train_epochs=1 or grpo.max_steps=20",
        )
