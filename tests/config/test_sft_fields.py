"""The section `sft`: its fields against the real SFTConfig, and what is refused of it."""

from __future__ import annotations

import dataclasses

import pytest
from trl import SFTConfig

from trl_envs.config.compose import compose
from trl_envs.config.sft_fields import SFT_OWNED, sft_fields
from trl_envs.errors import ConfigError


def test_names_are_those_of_the_installed_config() -> None:
    real = {field.name for field in dataclasses.fields(SFTConfig) if field.init}
    assert set(sft_fields()) == real
    assert set(SFT_OWNED) <= real
    assert sft_fields()["max_length"].default == SFTConfig.__dataclass_fields__["max_length"].default


def test_any_field_can_be_set_and_presets_set_some() -> None:
    config = compose(["recipe=catch", "preset=smoke", "sft.learning_rate=1e-4", "sft.packing=false"]).config
    assert (config.sft["learning_rate"], config.sft["packing"], config.sft["max_steps"]) == (1e-4, False, 2)
    assert "learning_rate" not in compose(["recipe=catch"]).config.sft


@pytest.mark.parametrize(
    ("key", "said", "meant"),
    [
        ("sft.lerning_rate=1", "the installed SFTConfig has no field lerning_rate", "sft.learning_rate"),
        ("sft.num_generations=4", "no field num_generations", "did you mean"),
        ("sft.output_dir=x", "sft.output_dir is set by the launcher", "output_dir=FOLDER"),
        ("sft.assistant_only_loss=false", "is set by the launcher", "the model's own turns alone"),
        ("sft.seed=3", "is set by the launcher", "seed=N"),
    ],
)
def test_wrong_names_and_the_launchers_own_are_refused(key: str, said: str, meant: str) -> None:
    with pytest.raises(ConfigError) as refused:
        compose(["recipe=catch", key])
    assert said in refused.value.message and meant in refused.value.hint
