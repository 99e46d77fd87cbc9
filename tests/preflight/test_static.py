"""Broken configs, each refused before anything starts: the key is named, and what fixes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trl_envs import paths
from trl_envs.config.compose import compose
from trl_envs.config.recipes import find_recipes
from trl_envs.errors import PreflightError, TrlEnvError
from trl_envs.machine import Gpu
from trl_envs.plan.facts import MachineFacts
from trl_envs.preflight.findings import Finding, Report, raise_errors
from trl_envs.preflight.rules import check_static

H200 = Gpu(index=0, name="H200", memory_gib=140.0, compute_capability=9.0)
GPU = {"gpus": [H200], "vllm": "0.29.0"}
INSTALLED = {"trl": "1.16.0", "openenv": "0.10.0", "transformers": "5.24.0", "vllm": None}


def facts(**changes: Any) -> MachineFacts:
    values: dict[str, Any] = {
        "gpus": [],
        "mps": False,
        "vllm": None,
        "free_port": lambda host: 8765,
        "variables": {},
        "port_is_free": lambda host, port: True,
        "versions": INSTALLED,
        "docker_problem": lambda: "",
    }
    return MachineFacts(**{**values, **changes})


def findings(*overrides: str, **changes: Any) -> list[Finding]:
    return check_static(compose(["recipe=catch", *overrides]).config, facts(**changes))


BROKEN: list[tuple[str, dict[str, Any], str, str]] = [
    # Batch arithmetic
    ("grpo.num_generations=1", {}, "grpo.num_generations", "grpo.num_generations=4"),
    ("grpo.num_generations=0", {}, "grpo.num_generations", "grpo.num_generations=4"),
    ("grpo.num_generations=null", {}, "grpo.num_generations", "grpo.num_generations=4"),
    ("grpo.num_generations=7", {}, "grpo.num_generations", "grpo.num_generations=8"),
    ("grpo.per_device_train_batch_size=0", {}, "grpo.per_device_train_batch_size", "=4"),
    ("grpo.per_device_train_batch_size=2.5", {}, "grpo.per_device_train_batch_size", "=4"),
    ("grpo.gradient_accumulation_steps=-1", {}, "grpo.gradient_accumulation_steps", "=4"),
    ("grpo.generation_batch_size=17", {}, "grpo.generation_batch_size", "multiple of 2"),
    ("grpo.generation_batch_size=8 grpo.steps_per_generation=2", {}, "grpo.generation_batch_size", "null"),
    ("grpo.per_device_eval_batch_size=0", {}, "grpo.per_device_eval_batch_size", "=4"),
    ("grpo.eval_strategy=steps grpo.per_device_eval_batch_size=12", {}, "grpo.per_device_eval_batch_size", "=8"),
    ("grpo.eval_strategy=epoch", {}, "grpo.eval_strategy", "grpo.eval_strategy=no"),
    ("grpo.auto_find_batch_size=true", {}, "grpo.auto_find_batch_size", "=false"),
    ("job=hf_jobs", {}, "job", "trl-env submit"),
    ("job.timeout=4h", {}, "job", "trl-env submit"),
    # Runs without a step
    ("envs.catch.episodes=1", {}, "envs.catch.episodes", "envs.catch.episodes=4"),
    ("envs.catch.episodes=0", {}, "envs.catch.episodes", "envs.catch.episodes=100"),
    ("grpo.max_steps=0", {}, "grpo.max_steps", "grpo.max_steps=20"),
    ("grpo.num_train_epochs=0", {}, "grpo.num_train_epochs", "grpo.num_train_epochs=1"),
    # Values out of a set, which GRPOConfig takes without a word
    ("grpo.loss_type=dapoo", {}, "grpo.loss_type", "grpo.loss_type=dapo"),
    ("grpo.scale_rewards=groups", {}, "grpo.scale_rewards", "grpo.scale_rewards=group"),
    ("grpo.importance_sampling_level=sentence", {}, "grpo.importance_sampling_level", "=sequence"),
    ("grpo.multi_objective_aggregation=sum", {}, "grpo.multi_objective_aggregation", "=sum_then_normalize"),
    ("grpo.vllm_importance_sampling_mode=truncate", {}, "grpo.vllm_importance_sampling_mode", "=token_truncate"),
    ("grpo.lr_scheduler_type=cosin", {}, "grpo.lr_scheduler_type", "grpo.lr_scheduler_type=cosine"),
    ("grpo.optim=adamw", {}, "grpo.optim", "grpo.optim=adamw_torch"),
    ("grpo.save_strategy=step", {}, "grpo.save_strategy", "grpo.save_strategy=steps"),
    ("grpo.logging_strategy=never", {}, "grpo.logging_strategy", "grpo.logging_strategy="),
    ("grpo.hub_strategy=always", {}, "grpo.hub_strategy", "grpo.hub_strategy="),
    ("grpo.vllm_mode=server", {}, "grpo.vllm_mode", "launch=single"),
    ("logging.report_to=[wandbb]", {}, "logging.report_to", "wandb"),
    (
        "logging.report_to=[trackio]",
        {"versions": {**INSTALLED, "trackio": None}},
        "logging.report_to",
        "trl-env[trackio]",
    ),
    ("model.dtype=bf16", {}, "model.dtype", "model.dtype=bfloat16"),
    # Types
    ("grpo.learning_rate=fast", {}, "grpo.learning_rate", "grpo.learning_rate=1e-06"),
    ("grpo.beta=[0.1]", {}, "grpo.beta", "grpo.beta=0.0"),
    ("grpo.max_steps=1e3", {}, "grpo.max_steps", "grpo.max_steps=-1"),
    ("grpo.gradient_checkpointing=1", {}, "grpo.gradient_checkpointing", "grpo.gradient_checkpointing=true"),
    ("grpo.save_strategy=false", {}, "grpo.save_strategy", 'write "no" in quotes'),
    ("grpo.temperature=null", {}, "grpo.temperature", "grpo.temperature=1.0"),
    ("grpo.chat_template_kwargs=3", {}, "grpo.chat_template_kwargs", "leave grpo.chat_template_kwargs out"),
    # Ranges
    ("grpo.learning_rate=0", {}, "grpo.learning_rate", "grpo.learning_rate=1e-06"),
    ("grpo.temperature=0", {}, "grpo.temperature", "grpo.temperature=1"),
    ("grpo.top_p=1.5", {}, "grpo.top_p", "grpo.top_p=1"),
    ("grpo.top_p=0", {}, "grpo.top_p", "grpo.top_p=1"),
    ("grpo.top_k=-1", {}, "grpo.top_k", "grpo.top_k=0"),
    ("grpo.max_completion_length=0", {}, "grpo.max_completion_length", "=1024"),
    ("grpo.max_tool_calling_iterations=0", {}, "grpo.max_tool_calling_iterations", "=10"),
    ("grpo.num_iterations=0", {}, "grpo.num_iterations", "grpo.num_iterations=1"),
    ("grpo.beta=-0.1", {}, "grpo.beta", "grpo.beta=0"),
    ("grpo.repetition_penalty=nan", {}, "grpo.repetition_penalty", "=1"),
    ("grpo.vllm_gpu_memory_utilization=20", {}, "grpo.vllm_gpu_memory_utilization", "=0.3"),
    ("grpo.vllm_max_model_length=2048", {}, "grpo.vllm_max_model_length", "=8192"),
    ("server.workers=0", {}, "server.workers", "server.workers=null"),
    ("rollout.call_timeout_s=0", {}, "rollout.call_timeout_s", "rollout.call_timeout_s=60"),
    ("rollout.connect_timeout_s=-1", {}, "rollout.connect_timeout_s", "rollout.connect_timeout_s=10"),
    ("rollout.capacity_wait_s=-1", {}, "rollout.capacity_wait_s", "rollout.capacity_wait_s=60"),
    ("envs.catch.rewards.caught.weight=nan", {}, "envs.catch.rewards.caught.weight", "a finite number"),
    ("envs.catch.rewards.caught.weight=-inf", {}, "envs.catch.rewards.caught.weight", "a finite number"),
    ("grpo.beta=nan", {}, "grpo.beta", "grpo.beta"),
    ("grpo.max_grad_norm=nan", {}, "grpo.max_grad_norm", "grpo.max_grad_norm"),
    ("seed=-1", {}, "seed", "seed=0"),
    ("seed=4294967296", {}, "seed", "seed=0"),
    ("envs.catch.seed=-3", {}, "envs.catch.seed", "envs.catch.seed=0"),
    ("eval.seed=-3", {}, "eval.seed", "eval.seed=0"),
    ("run_name=", {}, "run_name", "run_name=first"),
    ("run_name=../x", {}, "run_name", "output_dir=FOLDER"),
    ("run_name=a/b", {}, "run_name", "output_dir=FOLDER"),
    ("rollout.max_lost_fraction=1.5", {}, "rollout.max_lost_fraction", "rollout.max_lost_fraction=0.25"),
    ("rollout.concurrency=0", {}, "rollout.concurrency", "rollout.concurrency=null"),
    ("eval.episodes=-5", {}, "eval.episodes", "eval.episodes=200"),
    ("eval.temperature=0", {}, "eval.temperature", "eval.temperature=null"),
    ("server.heartbeat_timeout_s=0", {}, "server.heartbeat_timeout_s", "server.heartbeat_timeout_s=30"),
    ("rollout.concurrency=-4", {}, "rollout.concurrency", "rollout.concurrency=1"),
    ("watch.patience_steps=0", {}, "watch.patience_steps", "watch.patience_steps=5"),
    ("launch.vllm_args=[--enforce-eager]", {}, "launch.vllm_args", "leave launch.vllm_args out"),
    ("server.ready_timeout_s=0", {}, "server.ready_timeout_s", "server.ready_timeout_s=60"),
    ("model.lora.rank=0", {}, "model.lora.rank", "model.lora.rank=16"),
    # Launch against machine
    ("launch=colocate", {}, "launch=colocate", "launch=single"),
    ("launch=colocate", {"gpus": [H200]}, "launch=colocate", "pip install 'trl-env[vllm]'"),
    ("launch=server", GPU, "launch=server", "launch=colocate"),
    ("launch.processes=0", {}, "launch.processes", "launch.processes=1"),
    ("grpo.bf16=true", {}, "grpo.bf16", "grpo.bf16=false"),
    ("grpo.bf16=true grpo.fp16=true", GPU, "grpo.fp16", "grpo.fp16=false"),
    ("server.port=8001", {"port_is_free": lambda host, port: port == 0}, "server.port", "server.port=null"),
    ("server.port=99999", {}, "server.port", "server.port=8001"),
    # Servers, places, versions
    ("server=url", {}, "envs.catch.url", "envs.catch.url=http://HOST:PORT"),
    ("envs.catch.url=localhost:8001", {}, "envs.catch.url", "envs.catch.url=http://HOST:PORT"),
    ("envs.catch.app=null", {}, "envs.catch.app", "envs.catch.url=http://HOST:PORT"),
    ("mix.cach=1", {}, "mix.cach", "did you mean catch?"),
    ("mix.catch=-1", {}, "mix.catch", "mix.catch=1"),
    ("output_dir=/dev/null/runs", {}, "output_dir", "output_dir=FOLDER"),
    ("seed=1", {"versions": {**INSTALLED, "trl": "1.17.0"}}, "trl 1.17.0", "pip install 'trl>=1.16,<1.17'"),
    ("seed=1", {"versions": {**INSTALLED, "openenv": "0.9.3"}}, "openenv 0.9.3", "openenv>=0.10,<0.11"),
    ("seed=1", {"versions": {**INSTALLED, "transformers": "4.57.1"}}, "transformers 4.57.1", ">=5.2,<6.0"),
    ("seed=1", {**GPU, "versions": {**INSTALLED, "vllm": "0.31.0"}}, "vllm 0.31.0", "vllm>=0.28,<0.30"),
]


@pytest.mark.parametrize(("overrides", "machine", "named", "fix"), BROKEN, ids=[row[0] for row in BROKEN])
def test_a_broken_config_is_refused_with_its_key_and_its_fix(
    overrides: str, machine: dict[str, Any], named: str, fix: str
) -> None:
    with pytest.raises(TrlEnvError) as caught:
        raise_errors(Report(findings(*overrides.split(), **machine)))
    assert caught.value.exit_code == 2
    assert named in caught.value.message
    assert fix in str(caught.value)


def test_there_are_enough_kinds_of_broken_configs() -> None:
    assert len(BROKEN) >= 40


def test_two_broken_things_are_two_findings_each_with_its_fix() -> None:
    found = findings("grpo.loss_type=dapoo", "rollout.call_timeout_s=0")
    assert [finding.key for finding in found] == ["grpo.loss_type", "rollout.call_timeout_s"]
    with pytest.raises(PreflightError) as caught:
        raise_errors(Report(found))
    assert caught.value.message.startswith("2 things can't work")
    for finding in found:
        assert finding.message in caught.value.message
        assert f"fix: {finding.hint}" in caught.value.message


def test_a_value_is_faulted_once() -> None:
    broken = "grpo.temperature=hot", "grpo.num_generations=1", "grpo.max_steps=x", "grpo.eval_strategy=sometimes"
    keys = [finding.key for finding in findings(*broken)]
    assert sorted(keys) == sorted(set(keys))


@pytest.mark.parametrize("value", ["0", "-3", "-0.5", "9e99"])
def test_every_range_is_finite_where_it_says_so(value: str) -> None:
    keys = {finding.key for finding in findings(f"grpo.top_p={value}", f"rollout.max_lost_fraction={value}")}
    assert "grpo.top_p" in keys


def test_what_works_is_let_through() -> None:
    assert not findings(
        "grpo.scale_rewards=false",
        "grpo.save_strategy=no",
        "grpo.top_k=0",
        "grpo.lr_scheduler_type=cosine_with_min_lr",
        "grpo.lr_scheduler_kwargs={min_lr: 1e-7}",
        "grpo.max_completion_length=null",
        "grpo.optim_target_modules=[q_proj]",
        "grpo.logging_steps=0.1",
        "grpo.num_train_epochs=2",
        "logging.report_to=[trackio]",
        "model.dtype=bfloat16",
        "output_dir=/tmp/not/made/yet",
    )


SHIPPED = sorted(name for name, recipe in find_recipes().items() if recipe.shipped)
PRESETS = sorted(path.stem for path in (paths.configs_dir() / "preset").glob("*.yaml"))


@pytest.mark.parametrize("recipe", SHIPPED)
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("machine", [{}, {"mps": True}, GPU], ids=["cpu", "mps", "gpu"])
def test_what_ships_passes(recipe: str, preset: str, machine: dict[str, Any]) -> None:
    config = compose([f"recipe={recipe}", f"preset={preset}"]).config
    assert not check_static(config, facts(**machine))


def test_recipes_and_presets_were_found() -> None:
    assert {"catch", "echo"} <= set(SHIPPED)
    assert {"full", "smoke"} <= set(PRESETS)


def test_nothing_is_made_while_looking(tmp_path: Path) -> None:
    assert not findings(f"output_dir={tmp_path}/runs")
    assert not list(tmp_path.iterdir())


def test_a_finding_survives_json() -> None:
    finding = findings("grpo.top_p=2")[0]
    assert Finding.from_dict(finding.as_dict()) == finding
    with pytest.raises(ValueError, match="not a finding"):
        Finding.from_dict({"level": "fatal"})
