"""The memory estimate: published sizes of models, the parts that follow from the config, and overrides that fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trl_envs.config.compose import compose
from trl_envs.config.schema import TrainConfig
from trl_envs.paths import recipes_dir, tiny_model_dir
from trl_envs.preflight.memory import Lengths, Needs, estimate, vllm_needs_gib
from trl_envs.preflight.memory_rules import Case, memory_findings
from trl_envs.preflight.model_shape import ModelShape, shape_of

# config.json of each on the Hub, as far as the shape needs it, and the number of weights of its files.
QWEN3_1_7B: dict[str, Any] = {
    "model_type": "qwen3",
    "hidden_size": 2048,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 6144,
    "vocab_size": 151936,
    "tie_word_embeddings": True,
}
QWEN3_0_6B = {**QWEN3_1_7B, "hidden_size": 1024, "intermediate_size": 3072}
QWEN25_0_5B: dict[str, Any] = {
    "model_type": "qwen2",
    "hidden_size": 896,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "intermediate_size": 4864,
    "vocab_size": 151936,
    "tie_word_embeddings": True,
}
QWEN3_30B_A3B = {
    **QWEN3_1_7B,
    "model_type": "qwen3_moe",
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 768,
    "tie_word_embeddings": False,
}
RECIPES = sorted(path.stem for path in recipes_dir().glob("*.yaml"))
MODELS = {
    "echo": QWEN3_0_6B,
    "catch": QWEN25_0_5B,
    "wordle": QWEN3_1_7B,
    "sudoku": QWEN3_1_7B,
    "multi_env": QWEN3_1_7B,
}


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def shape(config: dict[str, Any]) -> ModelShape:
    found = shape_of(config)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("config", "parameters", "kv_values"),
    [
        (QWEN3_0_6B, 596_049_920, 57_344),
        (QWEN3_1_7B, 1_720_574_976, 57_344),
        (QWEN25_0_5B, 494_032_768, 6_144),
        (QWEN3_30B_A3B, 30_532_122_624, 49_152),
    ],
    ids=["Qwen3-0.6B", "Qwen3-1.7B", "Qwen2.5-0.5B", "Qwen3-30B-A3B"],
)
def test_published_sizes(config: dict[str, Any], parameters: int, kv_values: int) -> None:
    assert (shape(config).parameters, shape(config).kv_values) == (parameters, kv_values)


def test_the_tiny_agents_files_hold_what_its_config_says() -> None:
    from transformers import AutoConfig

    from trl_envs.preflight.probe_model import _parameters

    config = AutoConfig.from_pretrained(tiny_model_dir()).to_dict()
    assert shape(config).parameters == _parameters(str(tiny_model_dir()))


def test_a_model_of_another_build_has_no_shape() -> None:
    assert shape_of({}) is None
    assert shape_of({"hidden_size": 4096, "num_hidden_layers": 32}) is None


def needs(*overrides: str, mode: str = "colocate", model: dict[str, Any] = QWEN3_1_7B) -> Needs:
    config = compose(["recipe=wordle", *overrides]).config
    return estimate(config, shape(model), Lengths(300, 4096), mode=mode, at_once=64, gpu_gib=80.0)


# Expected GiB of weights, gradients and optimizer states: P = 1.6024 GiB of bytes for the weights of Qwen3-1.7B.
P = 1_720_574_976 / 2**30


@pytest.mark.parametrize(
    ("overrides", "weights", "gradients", "states"),
    [
        # float32, with a copy of each weight under autocast
        ([], 6 * P, 4 * P, 8 * P),
        (["grpo.bf16=false"], 4 * P, 4 * P, 8 * P),
        (["model.dtype=bfloat16"], 2 * P, 2 * P, 4 * P),
        (["grpo.model_init_kwargs={dtype: bfloat16}"], 2 * P, 2 * P, 4 * P),
        (["model.dtype=bfloat16", "grpo.beta=0.04"], 4 * P, 2 * P, 4 * P),
        (["model.dtype=bfloat16", "grpo.optim=adamw_bnb_8bit"], 2 * P, 2 * P, 2 * P),
        (["model.dtype=bfloat16", "grpo.optim=sgd"], 2 * P, 2 * P, 0.0),
        # 17,432,576 weights of the adapter, in float32
        (["model.dtype=bfloat16", "model.lora.rank=16"], 2 * P + 0.0649, 0.0649, 0.1299),
        (["model.dtype=bfloat16", "model.lora.rank=16", "grpo.beta=0.04"], 2 * P + 0.0649, 0.0649, 0.1299),
    ],
)
def test_what_a_model_takes(overrides: list[str], weights: float, gradients: float, states: float) -> None:
    found = needs(*overrides)
    assert (found.weights, found.gradients, found.optimizer) == pytest.approx((weights, gradients, states), abs=1e-3)


def test_activations_follow_batch_length_and_checkpointing() -> None:
    one, four = (needs(f"grpo.per_device_train_batch_size={size}").activations for size in (2, 8))
    assert four == pytest.approx(4 * one)
    kept = needs("grpo.gradient_checkpointing=false").activations
    assert kept > 5 * needs().activations
    assert needs("grpo.activation_checkpointing=false").activations == kept


def test_with_transformers_the_cache_of_all_episodes_and_with_vllm_its_share() -> None:
    single = needs(mode="single")
    assert single.cache == pytest.approx(64 * 4396 * 57_344 * 2 / 2**30)
    assert (single.vllm, needs().cache, needs().vllm) == (0.0, 0.0, pytest.approx(24.0))
    assert needs(mode="server").vllm == needs(mode="server").cache == 0.0


def case(config: TrainConfig, model: dict[str, Any], gpu_gib: float, *, mode: str = "colocate") -> Case:
    longest = Lengths(480, int(config.grpo["max_completion_length"]))
    return Case(shape(model), longest, longest, mode, 64, "a GPU", gpu_gib)


@pytest.mark.parametrize("recipe", RECIPES)
def test_published_numbers_fit_the_gpu_on_which_they_ran(recipe: str) -> None:
    config = compose([f"recipe={recipe}"]).config
    assert memory_findings(config, case(config, MODELS[recipe], 80.0)) == []


@pytest.mark.parametrize("recipe", RECIPES)
def test_preset_24gb_fits_24_gb_with_every_recipe_and_the_longest_episodes(recipe: str) -> None:
    config = compose([f"recipe={recipe}", "preset=24gb"]).config
    # What nvidia-smi says of an RTX 4090 is 24564 MiB, of an A10G 23028 MiB, of an L4 23034 MiB.
    fitting = case(config, MODELS[recipe], 23028 / 1024)
    assert memory_findings(config, fitting) == []
    assert fitting.needs(config, fitting.worst).peak < 22.0


def test_wordle_as_it_stands_does_not_fit_24_gb_and_the_hint_does() -> None:
    config = compose(["recipe=wordle"]).config
    (finding,) = memory_findings(config, case(config, QWEN3_1_7B, 24.0))
    assert finding.level == "error" and "needs about 48" in finding.message
    hint = finding.hint.removeprefix("set ").split()
    assert "model.dtype=bfloat16" in hint
    fitted = compose(["recipe=wordle", *hint]).config
    assert memory_findings(fitted, case(fitted, QWEN3_1_7B, 24.0)) == []


def test_what_only_the_longest_episodes_exceed_is_a_warning() -> None:
    config = compose(["recipe=wordle"]).config
    between = Case(shape(QWEN3_1_7B), Lengths(300, 900), Lengths(300, 4096), "colocate", 64, "a GPU", 58.0)
    (finding,) = memory_findings(config, between)
    assert finding.level == "warning" and "once episodes are as long as" in finding.message
    assert finding.hint == "set grpo.per_device_train_batch_size=4 grpo.gradient_accumulation_steps=16"


def test_a_share_in_which_vllm_could_not_start_is_refused() -> None:
    config = compose(["recipe=wordle", "preset=24gb", "grpo.vllm_gpu_memory_utilization=0.15"]).config
    findings = memory_findings(config, case(config, QWEN3_1_7B, 24.0))
    assert [(finding.level, finding.key) for finding in findings] == [("error", "grpo.vllm_gpu_memory_utilization")]
    assert vllm_needs_gib(shape(QWEN3_1_7B), 4576) == pytest.approx(2 * P + 1.49, abs=0.01)
    changed = compose(["recipe=wordle", "preset=24gb", findings[0].hint.removeprefix("set ")]).config
    assert memory_findings(changed, case(changed, QWEN3_1_7B, 24.0)) == []


def test_a_model_that_no_override_makes_small_enough_says_so() -> None:
    config = compose(["recipe=wordle", "grpo.vllm_gpu_memory_utilization=0.5"]).config
    (*_, finding) = memory_findings(config, case(config, QWEN3_30B_A3B, 24.0))
    assert finding.hint == "a smaller model=, or a larger GPU"
