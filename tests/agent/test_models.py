from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from trl_envs import paths
from trl_envs.agent.models import load_model, load_tokenizer
from trl_envs.config.model_location import model_location
from trl_envs.config.schema import ModelConfig
from trl_envs.errors import ConfigError


def test_a_run_directory_is_its_final_model_else_its_last_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "record.json").write_text("{}")
    with pytest.raises(ConfigError, match="neither a final model nor a checkpoint"):
        model_location(str(tmp_path))
    for step in (2, 10, 9):
        (tmp_path / f"checkpoint-{step}").mkdir()
    assert model_location(str(tmp_path)) == str(tmp_path / "checkpoint-10")
    (tmp_path / "model").mkdir()
    assert model_location(str(tmp_path)) == str(tmp_path / "model")


def test_names_and_other_folders_stay(tmp_path: Path) -> None:
    assert model_location("tiny") == str(paths.tiny_model_dir())
    assert model_location("Qwen/Qwen3-0.6B") == "Qwen/Qwen3-0.6B"
    assert model_location(str(tmp_path)) == str(tmp_path)


def test_a_model_that_cannot_be_reached_is_named_with_two_ways_on(tmp_path: Path) -> None:
    for path in ("nobody/nothing-at-all", str(tmp_path)):
        with pytest.raises(ConfigError) as caught:
            load_tokenizer(ModelConfig(path=path))
        assert path in caught.value.message
        assert "model=tiny" in caught.value.hint
        assert "HF_TOKEN" in caught.value.hint


def test_tiny_random_is_the_tiny_agents_shape_with_weights_of_its_own() -> None:
    before = torch.random.get_rng_state()
    one, two = (load_model(ModelConfig(path="tiny-random")) for _ in range(2))
    assert torch.equal(before, torch.random.get_rng_state())
    tiny = AutoModelForCausalLM.from_pretrained(paths.tiny_model_dir())
    assert one.num_parameters() == tiny.num_parameters()
    weights = [dict(model.named_parameters())["model.layers.0.mlp.up_proj.weight"] for model in (one, two, tiny)]
    assert torch.equal(weights[0], weights[1]) and not torch.allclose(weights[0], weights[2], atol=1e-2)
    assert one.generation_config.eos_token_id == tiny.generation_config.eos_token_id
    assert one.dtype == torch.float32
    assert (
        load_tokenizer(ModelConfig(path="tiny-random")).get_vocab() == load_tokenizer(ModelConfig("tiny")).get_vocab()
    )
    half = load_model(ModelConfig(path="tiny-random", dtype="bfloat16"))
    assert half.dtype == torch.bfloat16
