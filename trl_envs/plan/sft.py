"""A warm-up, planned: one training process or several, no servers, and the fields of SFTConfig that follow from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any

from trl_envs.config.schema import LaunchMode, TrainConfig
from trl_envs.config.sft_fields import sft_fields
from trl_envs.plan.build import python_path, trainer_variables
from trl_envs.plan.facts import MachineFacts
from trl_envs.plan.generation import precision, precision_problems
from trl_envs.plan.gpus import gpu_problems, split_gpus
from trl_envs.plan.mode import device_of
from trl_envs.plan.problem import Problem
from trl_envs.plan.spec import ProcessSpec
from trl_envs.plan.trainer import build_trainer, trainer_problems

SFT_WORKER = "trl_envs.training.warmup"
# Where `sft` says nothing and SFTConfig's own default wouldn't do.
SFT_DEFAULTS: dict[str, Any] = {
    # Its default cuts every game off at 1024 tokens without a word.
    "max_length": None,
    "save_total_limit": 2,
}


@dataclass(frozen=True)
class SftPlan:
    """A warm-up.

    Args:
        device: cpu, mps or cuda.
        trainer: The training worker.
        sft: Fields of SFTConfig that follow from the launch.
        data: Files of collected games.
        games: How many they hold.
        steps: Optimizer steps of the run.
        import_folders: Folders from which `_target_`s are imported.
        kind: What tells it from the plan of another run.
    """

    device: str
    trainer: ProcessSpec
    sft: Mapping[str, Any]
    data: tuple[str, ...]
    games: int
    steps: int
    import_folders: tuple[str, ...]
    kind: str = "sft"

    def as_dict(self) -> dict[str, Any]:
        """JSON-able; what plan.json holds and the worker reads."""
        return {**asdict(self), "commands": {self.trainer.name: self.trainer.command()}}


def build_sft_plan(
    config: TrainConfig,
    facts: MachineFacts,
    run_dir: Path,
    import_folders: Sequence[str],
    data: Sequence[Path],
    games: int,
) -> SftPlan:
    """Plans a warm-up for a config with which `sft_problems` finds nothing wrong.

    Args:
        config: What was asked for.
        facts: What the machine has.
        run_dir: Directory of the run, which need not exist yet.
        import_folders: Folders to put on PYTHONPATH.
        data: Files of collected games.
        games: How many they hold.
    """
    launched = _launched(config)
    split = split_gpus(launched.launch, facts, LaunchMode.single)
    variables = {**trainer_variables(facts, split), **python_path(import_folders, facts.variables)}
    owned = {"use_cpu": device_of(facts) == "cpu"}
    derived = {name: value for name, value in precision(launched, facts).items() if name not in config.sft}
    defaults = {name: value for name, value in SFT_DEFAULTS.items() if name not in config.sft}
    return SftPlan(
        device=device_of(facts),
        trainer=build_trainer(launched, facts, run_dir, variables, SFT_WORKER),
        sft={**owned, **derived, **defaults},
        data=tuple(str(path.absolute()) for path in data),
        games=games,
        steps=_steps(config, games),
        import_folders=tuple(import_folders),
    )


def sft_problems(config: TrainConfig, facts: MachineFacts) -> list[Problem]:
    """What of the launch keeps a warm-up from being started on this machine."""
    launched = _launched(config)
    problems = [
        *trainer_problems(launched, facts, LaunchMode.single),
        *gpu_problems(launched.launch, facts, LaunchMode.single),
        *precision_problems(launched, facts),
    ]
    return [as_sft(problem) for problem in problems]


def as_sft(problem: Problem) -> Problem:
    """A rule on a field that both trainers have, said of `sft`."""
    said = (problem.key, problem.message, problem.hint)
    return Problem(*(text.replace("grpo.", "sft.").replace("GRPOConfig", "SFTConfig") for text in said))


def sft_value(config: TrainConfig, name: str) -> Any:
    """What a field will be: the value set under `sft`, else the launcher's default, else SFTConfig's."""
    return {**SFT_DEFAULTS, **config.sft}.get(name, sft_fields()[name].default)


def _launched(config: TrainConfig) -> TrainConfig:
    """The config as the rules of a launch read it: nothing generates, and the trainer's fields are SFTConfig's."""
    return replace(config, grpo=config.sft, launch=replace(config.launch, mode=LaunchMode.single))


def _steps(config: TrainConfig, games: int) -> int:
    """Optimizer steps, as transformers' Trainer counts them."""
    bound = int(sft_value(config, "max_steps"))
    if bound > 0:
        return bound
    size, passes = int(sft_value(config, "per_device_train_batch_size")), float(sft_value(config, "num_train_epochs"))
    batches = ceil(games / (size * config.launch.processes))
    return ceil(max(ceil(batches / int(sft_value(config, "gradient_accumulation_steps"))), 1) * passes)
