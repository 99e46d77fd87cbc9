"""What is read out of source text, against the installed packages themselves."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from trl_envs.config.grpo_fields import OWNED, grpo_fields
from trl_envs.config.sft_fields import SFT_OWNED, sft_fields
from trl_envs.preflight.grpo_rules import COMPARED_FIELDS, RANGES
from trl_envs.preflight.grpo_types import fits
from trl_envs.preflight.installed_source import compared_values, enum_values, reporters
from trl_envs.preflight.versions import WINDOWS

DOCUMENTED = {
    "loss_type": {"grpo", "dr_grpo", "dapo", "bnpo", "cispo", "sapo", "luspo", "vespo"},
    "scale_rewards": {"group", "batch", "none"},
    "importance_sampling_level": {"token", "sequence"},
    "multi_objective_aggregation": {"sum_then_normalize", "normalize_then_sum"},
    "vllm_importance_sampling_mode": {"token_truncate", "token_mask", "sequence_truncate", "sequence_mask"},
}


@pytest.mark.parametrize("field", COMPARED_FIELDS)
def test_the_trainer_compares_with_the_documented_values(field: str) -> None:
    assert set(compared_values(field)) == DOCUMENTED[field]


def test_enums_are_those_of_transformers() -> None:
    from transformers.trainer_utils import HubStrategy, IntervalStrategy, SaveStrategy, SchedulerType
    from transformers.training_args import OptimizerNames

    for enum in (HubStrategy, IntervalStrategy, SaveStrategy, SchedulerType, OptimizerNames):
        assert enum_values(enum.__name__) == tuple(member.value for member in enum)
    assert enum_values("NoSuchEnum") == ()


def test_reporters_are_those_of_transformers() -> None:
    from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK

    assert reporters() == tuple(INTEGRATION_TO_CALLBACK)


def test_every_default_fits_its_own_annotation_and_range() -> None:
    free = [*(set(grpo_fields()) - set(OWNED)), *(set(sft_fields()) - set(SFT_OWNED))]
    assert set(RANGES) <= set(free)
    for field in [*grpo_fields().values(), *sft_fields().values()]:
        if field.default is not None:
            assert fits(field, field.default), field
            if field.name in RANGES and field.name != "top_k":
                assert RANGES[field.name].holds(field.default), field


def test_version_windows_are_those_of_the_package() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    pins = [*project["dependencies"], *project["optional-dependencies"]["vllm"]]
    for name, (first, after) in WINDOWS.items():
        pin = next(pin for pin in pins if pin.startswith(f"{name}>="))
        low, high = pin.removeprefix(f"{name}>=").split(",<")
        assert [tuple(map(int, (*version.split("."), "0")[:2])) for version in (low, high)] == [first, after]
