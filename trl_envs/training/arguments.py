"""The GRPOConfig of a run and the SFTConfig of a warm-up: what the recipe sets, and what the launcher owns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trl import GRPOConfig, SFTConfig

from trl_envs.agent.terms import RewardTerm
from trl_envs.config.schema import TrainConfig
from trl_envs.errors import ConfigError

# Where these say nothing, GRPOConfig's own defaults stand.
_DEFAULTS: dict[str, Any] = {
    "logging_steps": 1,
    "log_completions": True,
    # The tables that it prints would fight the progress line; the parquet files hold all of them.
    "num_completions_to_print": 0,
    "save_total_limit": 2,
}


def build_arguments(
    config: TrainConfig,
    run_dir: Path,
    terms: Sequence[RewardTerm],
    launched: Mapping[str, Any],
    report_to: Sequence[str] = (),
) -> GRPOConfig:
    """GRPOConfig as TRL wants it.

    Args:
        config: The run's config.
        run_dir: Where checkpoints and completions go.
        terms: Reward terms, in the order in which TRL gets them.
        launched: Fields that follow from the launch, as its plan holds them: none that the recipe may set and has set.
        report_to: Where metrics go beside the run directory.

    Raises:
        ConfigError: GRPOConfig refuses a value.
    """
    values: dict[str, Any] = {
        **_DEFAULTS,
        **config.grpo,
        **launched,
        **_owned(config, run_dir, config.grpo, report_to),
        "reward_weights": [term.weight for term in terms],
    }
    try:
        return GRPOConfig(**values)
    except (ValueError, TypeError, ZeroDivisionError) as error:
        raise ConfigError(
            f"GRPOConfig refuses the values under grpo: {error}", "trl-env show recipe=NAME prints them"
        ) from error


def build_sft_arguments(
    config: TrainConfig, run_dir: Path, launched: Mapping[str, Any], report_to: Sequence[str] = ()
) -> SFTConfig:
    """SFTConfig as TRL wants it.

    Args:
        config: The run's config.
        run_dir: Where checkpoints go.
        launched: Fields that follow from the launch, as its plan holds them.
        report_to: Where metrics go beside the run directory.

    Raises:
        ConfigError: SFTConfig refuses a value.
    """
    try:
        return SFTConfig(**{**config.sft, **launched, **_owned(config, run_dir, config.sft, report_to)})
    except (ValueError, TypeError, ZeroDivisionError) as error:
        raise ConfigError(
            f"SFTConfig refuses the values under sft: {error}", "trl-env show recipe=NAME prints them"
        ) from error


def _owned(config: TrainConfig, run_dir: Path, section: Mapping[str, Any], report_to: Sequence[str]) -> dict[str, Any]:
    """Fields of every trainer that follow from keys outside its own section."""
    values: dict[str, Any] = {
        "output_dir": str(run_dir),
        "run_name": run_dir.name,
        "seed": config.seed,
        "report_to": list(report_to),
        "disable_tqdm": True,
    }
    if report_to:
        values["project"] = section.get("project", config.logging.project)
    if config.model.dtype is not None:
        values["model_init_kwargs"] = {**(section.get("model_init_kwargs") or {}), "dtype": config.model.dtype}
    return values
