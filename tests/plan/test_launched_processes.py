"""The processes of a launch: how vLLM, trainer and accelerate are called, and on which GPUs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.plan.launching import A100, H200, ONE, QWEN, T4, TWO, gpus, plan
from trl_envs.config.compose import compose
from trl_envs.errors import PreflightError
from trl_envs.machine import accelerate_configs, free_port


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
