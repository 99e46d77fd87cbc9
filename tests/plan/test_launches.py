"""The table of launches: which GPUs, versions and models give which processes, or which refusal."""

# A case is a line, however long.
# ruff: noqa: E501

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from trl_envs.config.compose import compose
from trl_envs.errors import PreflightError
from trl_envs.machine import Conflict, Gpu, accelerate_configs, free_port
from trl_envs.plan.build import build_plan
from trl_envs.plan.facts import MachineFacts
from trl_envs.plan.launch_plan import LaunchPlan
from trl_envs.preflight.findings import Report, raise_errors
from trl_envs.preflight.rules import check_static

T4, V100, A100, H200 = ("T4", 15.0, 7.5), ("V100", 32.0, 7.0), ("A100", 80.0, 8.0), ("H200", 140.0, 9.0)
INSTALLED = {"trl": "1.16.0", "openenv": "0.10.0", "transformers": "5.24.0", "torch": "2.13.0", "mcp": "1.30.0"}
QWEN = {  # the config.json of Qwen3-1.7B, as far as it is read
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "vocab_size": 151936,
    "tie_word_embeddings": True,
    "max_position_embeddings": 40960,
}


def gpus(*kinds: tuple[str, float, float], visible_as: tuple[str, ...] = ()) -> list[Gpu]:
    return [Gpu(i, *kind, visible_as=visible_as[i] if visible_as else "") for i, kind in enumerate(kinds)]


def facts(**changes: Any) -> MachineFacts:
    ports = iter(range(9000, 9100))
    values: dict[str, Any] = {
        "gpus": [],
        "mps": False,
        "vllm": "0.29.0",
        "free_port": lambda host: next(ports),
        "variables": {},
        "port_is_free": lambda host, port: True,
        "versions": INSTALLED,
        "accelerate_configs": Path("/trl/accelerate_configs"),
        "model_settings": lambda model: None,
    }
    return MachineFacts(**{**values, **changes})


def plan(overrides: str, **changes: Any) -> LaunchPlan:
    """As `train` makes it: checked, then built."""
    composed, found = compose(["recipe=wordle", *overrides.split()]), facts(**changes)
    raise_errors(Report(check_static(composed.config, found)))
    return build_plan(composed.config, found, Path("/runs/one"), [])


def seen_by(planned: LaunchPlan) -> tuple[str | None, str | None]:
    """CUDA_VISIBLE_DEVICES of the vLLM server and of the trainer."""
    engine = planned.engine.process.variables if planned.engine else {}
    return engine.get("CUDA_VISIBLE_DEVICES"), planned.trainer.variables.get("CUDA_VISIBLE_DEVICES")


ONE, TWO, FOUR = gpus(A100), gpus(A100, A100), gpus(H200, H200, H200, H200)
UUIDS = gpus(A100, A100, visible_as=("GPU-aa", "GPU-bb"))
OLD = {**INSTALLED, "vllm": "0.31.0"}
TORCH = Conflict("vllm", "0.29.0", "torch==2.13.0", "torch", "2.14.1")

# overrides, machine -> mode, part of the reason, CUDA_VISIBLE_DEVICES of server and trainer
PLANNED: list[tuple[str, dict[str, Any], str, str, str | None, str | None]] = [
    ("", {"vllm": None}, "single", "no GPU is visible", None, None),
    ("", {}, "single", "no GPU is visible", None, None),
    ("", {"mps": True}, "single", "float32", None, None),
    ("", {"gpus": ONE}, "colocate", "one GPU (A100)", None, None),
    ("", {"gpus": ONE, "vllm": None}, "single", "pip install 'trl-env[vllm]'", None, None),
    ("", {"gpus": TWO, "vllm": None}, "single", "vLLM isn't installed", None, "0"),
    ("", {"gpus": TWO}, "server", "vLLM on GPU 0, trainer on GPU 1", "0", "1"),
    ("", {"gpus": FOUR}, "server", "vLLM on GPUs 0, 1, 2, trainer on GPU 3", "0,1,2", "3"),
    ("", {"gpus": UUIDS}, "server", "2 GPUs", "GPU-aa", "GPU-bb"),
    ("", {"gpus": gpus(T4)}, "colocate", "mixed float16", None, None),
    ("", {"gpus": gpus(V100)}, "single", "V100 has 7.0", None, None),
    ("", {"gpus": gpus(V100, V100)}, "single", "compute capability 7.5", None, "0"),
    ("", {"gpus": gpus(A100, T4)}, "server", "mixed float16", "0", "1"),
    ("preset=smoke", {"gpus": TWO}, "single", "asked for", None, "0"),
    ("launch=single", {"gpus": ONE, "vllm": None}, "single", "asked for", None, None),
    ("launch=colocate", {"gpus": TWO}, "colocate", "asked for", None, "0"),
    ("launch=colocate launch.gpus=[1]", {"gpus": TWO}, "colocate", "asked for", None, "1"),
    ("launch.gpus=[1]", {"gpus": TWO}, "colocate", "leaves the others alone", None, "1"),
    ("launch.processes=2", {"gpus": TWO}, "colocate", "several training processes", None, None),
    ("launch.processes=2 launch.gpus=[2,3]", {"gpus": FOUR}, "colocate", "several", None, "2,3"),
    ("launch=server", {"gpus": TWO}, "server", "asked for: vLLM on GPU 0", "0", "1"),
    ("launch=server launch.gpus=[0]", {"gpus": TWO}, "server", "trainer on GPU 0", "1", "0"),
    ("launch.vllm_gpus=[1,2]", {"gpus": FOUR}, "server", "vLLM on GPUs 1, 2, trainer on GPU 3", "1,2", "3"),
    ("launch=server launch.vllm_tensor_parallel=2 launch.gpus=[0] launch.vllm_gpus=[1,2]", {"gpus": FOUR}, "server", "", "1,2", "0"),
    ("launch=server model=owner/adapter", {"gpus": TWO, "served_model": lambda path: "base/model"}, "server", "", "0", "1"),
    ("model=tiny", {"gpus": ONE}, "colocate", "one GPU", None, None),
    ("launch=single", {"gpus": ONE, "versions": OLD, "vllm": "0.31.0"}, "single", "asked for", None, None),
    ("launch=single", {"gpus": ONE, "conflicts": [TORCH]}, "single", "asked for", None, None),
]  # fmt: skip


@pytest.mark.parametrize(("overrides", "machine", "mode", "reason", "engine", "trainer"), PLANNED, ids=str)
def test_the_launch_follows_from_gpus_mode_versions_and_model(
    overrides: str, machine: dict[str, Any], mode: str, reason: str, engine: str | None, trainer: str | None
) -> None:
    planned = plan(overrides, **machine)
    assert planned.mode == mode
    assert reason in planned.reason
    assert seen_by(planned) == (engine, trainer)
    assert planned.grpo["use_vllm"] is (mode != "single")
    assert planned.grpo.get("vllm_mode") == (None if mode == "single" else mode)
    assert (planned.engine is not None) is (mode == "server")


# overrides, machine -> key, part of the message, part of what mends it
REFUSED: list[tuple[str, dict[str, Any], str, str, str]] = [
    ("launch=server", {}, "launch.mode", "no GPU is visible", "launch=single"),
    ("launch=server", {"gpus": ONE}, "launch.mode", "1 GPU(s) are visible", "launch=colocate"),
    ("launch=server", {"gpus": TWO, "vllm": None}, "launch.mode", "TRL's client imports it", "trl-env[vllm]"),
    ("launch=colocate", {"gpus": ONE, "vllm": None}, "launch.mode", "isn't installed", "trl-env[vllm]"),
    ("launch=server launch.processes=2", {"gpus": FOUR}, "launch.processes", "for ever", "launch=colocate"),
    ("launch=server launch.gpus=[0] launch.vllm_gpus=[0]", {"gpus": TWO}, "launch.vllm_gpus", "both name GPU 0", "launch=colocate"),
    ("launch.vllm_gpus=[0,1]", {"gpus": TWO}, "launch.vllm_gpus", "leaves 0 GPU(s)", "launch=colocate"),
    ("launch=server launch.vllm_gpus=[7]", {"gpus": TWO}, "launch.vllm_gpus", "no GPU 7 (visible here: 0, 1)", "null"),
    ("launch.gpus=[2]", {"gpus": TWO}, "launch.gpus", "no GPU 2", "launch.gpus=[0]"),
    ("launch.gpus=[0]", {}, "launch.gpus", "no GPU is visible here", "launch.gpus=null"),
    ("launch.gpus=[0,0]", {"gpus": TWO}, "launch.gpus", "twice", "launch.gpus=[0]"),
    ("launch.gpus=[0,1]", {"gpus": TWO}, "launch.gpus", "exactly one GPU", "launch.processes=2"),
    ("launch.processes=4", {"gpus": TWO}, "launch.processes", "each needs its own", "launch.processes=2"),
    ("launch.vllm_tensor_parallel=2", {"gpus": FOUR}, "launch.vllm_tensor_parallel", "doesn't divide the 3", "=1"),
    ("launch=colocate launch.vllm_gpus=[1]", {"gpus": TWO}, "launch.vllm_gpus", "there is none", "launch=server"),
    ("launch.vllm_args=[--port,8000]", {"gpus": TWO}, "launch.vllm_args", "--port", "free one"),
    ("launch.vllm_args=[--tensor_parallel_size,2]", {"gpus": TWO}, "launch.vllm_args", "-parallel", "vllm_tensor_parallel"),
    ("launch.vllm_args=[--weight-transfer-config.backend,ipc]", {"gpus": TWO}, "launch.vllm_args", "--weight", "NCCL"),
    ("launch.vllm_args=[Qwen/Qwen3-4B]", {"gpus": TWO}, "launch.vllm_args", "second model", "--option"),
    ("grpo.vllm_max_model_length=8192", {"gpus": TWO}, "grpo.vllm_max_model_length", "middle of the run", "null"),
    ("model=tiny", {"gpus": TWO, "model_settings": lambda m: {"max_position_embeddings": 8192}}, "grpo.max_completion_length", "tiny takes 8192", "=3072"),
    ("grpo.bf16=true", {"gpus": gpus(T4)}, "grpo.bf16", "no bfloat16", "float16"),
    ("model.dtype=bfloat16", {"gpus": gpus(T4)}, "model.dtype", "no bfloat16", "model.dtype=float32"),
    ("launch.accelerate=multi_gpu", {}, "launch.accelerate", "none is visible", "launch.accelerate=null"),
    ("launch.accelerate=zero9 launch.processes=2", {"gpus": TWO}, "launch.accelerate", "none of multi_gpu", "multi_gpu"),
    ("launch.accelerate=multi_gpu", {"gpus": ONE}, "launch.accelerate", "nothing to share", "launch.processes=2"),
    ("launch.accelerate=zero3 launch.processes=2", {"gpus": TWO, "versions": {"deepspeed": None}}, "launch.accelerate", "needs DeepSpeed", "pip install"),
    ("launch=single launch.accelerate=zero3 launch.processes=2", {"gpus": TWO}, "launch.accelerate", "for ever", "launch=colocate"),
    ("launch=single launch.accelerate=fsdp2 launch.processes=2", {"gpus": TWO}, "launch.accelerate", "for ever", "zero2"),
    ("launch.accelerate=zero3 launch.processes=2 grpo.ds3_gather_for_generation=false", {"gpus": TWO}, "grpo.ds3_gather_for_generation", "in pieces", "true"),
    ("launch.processes=2 grpo.vllm_tensor_parallel_size=2", {"gpus": TWO}, "grpo.vllm_tensor_parallel_size", "for ever", "=1"),
    ("launch.accelerate=fsdp2 launch.processes=2 grpo.vllm_enable_sleep_mode=true", {"gpus": TWO}, "grpo.vllm_enable_sleep_mode", "for ever", "false"),
    ("launch.machines=2 launch.processes=4", {"gpus": TWO}, "launch.main_process_ip", "can't meet", "10.0.0.1"),
    ("launch.machine_rank=1", {"gpus": ONE}, "launch.machine_rank", "launch.machines=1", "launch.machines=2"),
    ("", {"gpus": ONE, "versions": OLD, "vllm": "0.31.0"}, "vllm", "vllm 0.31.0", "pip install 'vllm>=0.28,<0.30'"),
    ("", {"gpus": ONE, "conflicts": [TORCH]}, "torch", "needs torch==2.13.0, and torch 2.14.1", "'vllm==0.29.0' 'torch==2.13.0'"),
    ("", {"versions": {**INSTALLED, "mcp": "2.1.0"}}, "mcp", "mcp 2.1.0", "pip install 'mcp>=1.24,<2.0'"),
]  # fmt: skip


@pytest.mark.parametrize(("overrides", "machine", "key", "message", "fix"), REFUSED, ids=str)
def test_a_launch_that_would_hang_or_fail_is_refused(
    overrides: str, machine: dict[str, Any], key: str, message: str, fix: str
) -> None:
    config = compose(["recipe=wordle", *overrides.split()]).config
    found = [finding for finding in check_static(config, facts(**machine)) if finding.key == key]
    assert found, check_static(config, facts(**machine))
    assert message in found[0].message
    assert fix in found[0].hint


def test_there_are_enough_cases() -> None:
    assert len(PLANNED) >= 25
    assert len(REFUSED) >= 25


def test_the_server_is_called_as_trl_wants_it() -> None:
    planned = plan("launch=server", gpus=TWO)
    assert planned.engine is not None
    process = planned.engine.process
    assert process.argv == (
        *("vllm", "serve", "openenv/Qwen3-1.7B-Wordle-SFT", "--host", "127.0.0.1", "--port", "9000"),
        *("--weight-transfer-config", '{"backend": "nccl"}', "--logprobs-mode", "processed_logprobs"),
        *("--max-logprobs", "-1", "--max-model-len", process.argv[-1]),
    )
    prompt = len(compose(["recipe=wordle"]).config.envs["wordle"].prompt.encode())
    assert int(process.argv[-1]) >= prompt // 4 + 2 * 4096
    assert process.variables == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "0",
        "VLLM_SERVER_DEV_MODE": "1",
    }
    assert planned.trainer.variables["VLLM_HOST_IP"] == "127.0.0.1"
    assert {k: v for k, v in planned.grpo.items() if k.startswith("vllm")} == {
        "vllm_mode": "server",
        "vllm_server_base_url": "http://127.0.0.1:9000",
        "vllm_server_timeout": 600.0,
        "vllm_group_port": 9001,
    }
    assert [spec.name for spec in planned.processes()] == ["server-wordle", "vllm", "trainer"]


def test_copies_and_parts_of_the_model_fill_the_servers_gpus() -> None:
    def sizes(overrides: str) -> tuple[str, ...]:
        planned = plan(f"launch=server {overrides}", gpus=gpus(*[H200] * 5))
        assert planned.engine is not None
        assert planned.engine.world_size == len(planned.engine.process.variables["CUDA_VISIBLE_DEVICES"].split(","))
        argv = planned.engine.process.argv
        return argv[argv.index("--max-model-len") + 2 :]

    assert sizes("") == ("--data-parallel-size", "4")
    assert sizes("launch.vllm_tensor_parallel=2") == ("--tensor-parallel-size", "2", "--data-parallel-size", "2")
    assert sizes("launch.vllm_tensor_parallel=4") == ("--tensor-parallel-size", "4")
    assert sizes("launch.vllm_gpus=[1] launch.vllm_args=[--gpu-memory-utilization,0.8]") == (
        "--gpu-memory-utilization",
        "0.8",
    )


def test_an_adapter_is_trained_and_its_base_is_served(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "Qwen/Qwen3-1.7B"}))
    planned = plan(f"launch=server model={tmp_path} launch.vllm_executable=/other/bin/vllm", gpus=TWO)
    assert planned.engine is not None
    assert planned.engine.process.argv[:3] == ("/other/bin/vllm", "serve", "Qwen/Qwen3-1.7B")
    assert planned.engine.model == "Qwen/Qwen3-1.7B"
    again = planned.resuming(2, "/runs/one/checkpoint-5")
    assert again.engine is not None
    assert (again.engine.process.name, again.engine.model) == ("vllm-2", "Qwen/Qwen3-1.7B")


def test_in_the_trainer_vllm_takes_what_the_episodes_need() -> None:
    def derived(overrides: str = "", kind: tuple[str, float, float] = A100) -> tuple[Any, Any]:
        fields = plan(f"launch=colocate {overrides}", gpus=gpus(kind), model_settings=lambda model: QWEN).grpo
        return fields.get("vllm_max_model_length"), fields.get("vllm_gpu_memory_utilization")

    length, share = derived()
    assert 4096 + 200 < length < 8192
    assert share == 0.3
    # 3.4 GB of weights don't fit into 30% of a small GPU beside a sequence.
    assert derived(kind=("small", 16.0, 8.6))[1] > 0.3
    assert derived(kind=H200)[1] == 0.2
    assert derived("grpo.vllm_max_model_length=20000 grpo.vllm_gpu_memory_utilization=0.5") == (None, None)
    assert derived("grpo.per_device_train_batch_size=16 grpo.gradient_accumulation_steps=1", kind=H200)[1] < 0.15
    unknown = plan("launch=colocate", gpus=ONE).grpo
    assert "vllm_gpu_memory_utilization" not in unknown


@pytest.mark.parametrize(
    ("overrides", "machine", "bf16", "fp16"),
    [
        ("", {}, False, None),
        ("", {"mps": True}, False, None),
        ("", {"gpus": ONE}, None, None),
        ("", {"gpus": gpus(T4)}, False, True),
        ("model.dtype=float16", {"gpus": gpus(T4)}, False, False),
        ("grpo.fp16=true", {"gpus": gpus(T4)}, None, None),
        ("grpo.fp16=false", {"gpus": gpus(T4)}, False, None),
    ],
)
def test_the_number_format_is_one_that_the_machine_has(
    overrides: str, machine: dict[str, Any], bf16: bool | None, fp16: bool | None
) -> None:
    fields = plan(overrides, **machine).grpo
    assert (fields.get("bf16"), fields.get("fp16")) == (bf16, fp16)


@pytest.mark.parametrize("name", ["multi_gpu", "zero2", "zero3", "fsdp2"])
def test_several_gpus_are_started_by_accelerate_which_takes_the_command(name: str) -> None:
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser

    folder = accelerate_configs()
    planned = plan(f"launch.processes=2 launch.accelerate={name}", gpus=TWO, accelerate_configs=folder)
    argv = planned.trainer.argv
    assert argv[1:3] == ("-m", "accelerate.commands.launch")
    read = launch_command_parser().parse_args(list(argv[3:]))
    assert folder is not None and read.config_file == str(folder / f"{name}.yaml")
    assert yaml.safe_load(Path(read.config_file).read_text())["num_processes"] == 8
    # As accelerate itself then joins command and file.
    read, _, _ = _validate_launch_command(read)
    assert (read.num_processes, read.num_machines, read.machine_rank) == (2, 1, 0)
    assert (read.multi_gpu, read.use_deepspeed, read.use_fsdp) == (name == "multi_gpu", "zero" in name, name == "fsdp2")
    assert (read.module, read.training_script) == (True, "trl_envs.training.worker")
    assert read.main_process_port >= 9000
    assert read.mixed_precision == "bf16"
    assert planned.batch.processes == 2


def test_machines_are_told_where_to_meet() -> None:
    overrides = "launch.processes=4 launch.machines=2 launch.machine_rank=1 launch.main_process_ip=10.0.0.1"
    planned = plan(f"{overrides} launch.main_process_port=29500 eval.episodes=4", gpus=TWO)
    command = planned.trainer.command()
    for part in ("--num_machines 2", "--machine_rank 1", "--main_process_ip 10.0.0.1", "--main_process_port 29500"):
        assert part in command
    # The model that training leaves is on the first machine.
    assert planned.evaluations == {}


def test_an_accelerate_file_of_ones_own_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("distributed_type: FSDP\n")
    assert str(file) in plan(f"launch.processes=2 launch.accelerate={file}", gpus=TWO).trainer.argv


def test_an_evaluation_sees_one_gpu() -> None:
    planned = plan("launch.processes=2 eval.episodes=4", gpus=TWO)
    assert planned.evaluations["before"].variables["CUDA_VISIBLE_DEVICES"] == "0"


def test_two_runs_at_once_share_no_port() -> None:
    ports: list[int] = []
    for _ in range(10):
        planned = plan("launch=server", gpus=TWO, free_port=free_port)
        assert planned.engine is not None
        environment = planned.environments["wordle"].process
        ports += [planned.engine.process.port or 0, planned.engine.group_port, (environment and environment.port) or 0]
    assert len(set(ports)) == 30
    assert 0 not in ports


def test_a_refusal_is_an_error_with_exit_code_2() -> None:
    with pytest.raises(PreflightError) as caught:
        plan("launch=server", gpus=ONE)
    assert caught.value.exit_code == 2
    assert "launch=colocate" in str(caught.value)
