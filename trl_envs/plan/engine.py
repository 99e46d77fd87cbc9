"""The vLLM server beside the trainer (launch=server), as a process.

Command and variables are those that TRL 1.16 speaks to (trl/generation/vllm_client.py): vLLM's own server with its
development endpoints and a weight-transfer engine, not `trl vllm-serve`, which older releases of TRL used.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from trl_envs.config.grpo_fields import grpo_value
from trl_envs.config.schema import LaunchMode, TrainConfig
from trl_envs.plan.facts import MachineFacts
from trl_envs.plan.gpus import GpuSplit, visibility
from trl_envs.plan.launch_plan import EnginePlan
from trl_envs.plan.problem import Problem
from trl_envs.plan.spec import ProcessSpec, ReadySpec
from trl_envs.plan.tokens import model_length

# The development endpoints can load and run anything, so nobody else may reach them.
HOST = "127.0.0.1"
READY_KEY = "launch.ready_timeout_s"
# Arguments of `vllm serve` that are decided here, and how else to steer them.
_OURS = {
    "--model": "set model=",
    "--served-model-name": "leave it out: TRL asks for the model by its own name",
    "--host": "leave it out: the server's development endpoints are for this machine alone",
    "--port": "leave it out: a free one is taken",
    "--uds": "leave it out: TRL speaks HTTP",
    "--api-key": "leave it out: TRL sends none",
    "--root-path": "leave it out: TRL asks at the root",
    "--ssl-keyfile": "leave it out: TRL speaks plain HTTP to this machine",
    "--ssl-certfile": "leave it out: TRL speaks plain HTTP to this machine",
    "--weight-transfer-config": "leave it out: TRL sends weights through NCCL",
    "--logprobs-mode": "leave it out: TRL corrects with processed_logprobs",
    "--max-logprobs": "leave it out: TRL needs -1",
    "--max-model-len": "set grpo.vllm_max_model_length=",
    "--tensor-parallel-size": "set launch.vllm_tensor_parallel=",
    "-tp": "set launch.vllm_tensor_parallel=",
    "--data-parallel-size": "set launch.vllm_gpus= and launch.vllm_tensor_parallel=",
    "-dp": "set launch.vllm_gpus= and launch.vllm_tensor_parallel=",
    "--pipeline-parallel-size": "set launch.vllm_tensor_parallel=",
    "-pp": "set launch.vllm_tensor_parallel=",
}


def build_engine(config: TrainConfig, facts: MachineFacts, split: GpuSplit) -> EnginePlan:
    """The server, on its GPUs: as many copies of the model as fit there, each over `vllm_tensor_parallel` of them."""
    launch = config.launch
    model = facts.served_model(config.model.path)
    port = facts.free_port(HOST)
    url = f"http://{HOST}:{port}"
    program = str(Path(launch.vllm_executable).expanduser()) if launch.vllm_executable else facts.vllm_program
    argv = (
        *(program, "serve", model, "--host", HOST, "--port", str(port)),
        *("--weight-transfer-config", '{"backend": "nccl"}'),
        *("--logprobs-mode", "processed_logprobs", "--max-logprobs", "-1"),
        *_sizes(config, facts, split, model),
        *launch.vllm_args,
    )
    ready = ReadySpec(f"{url}/health", launch.ready_timeout_s, READY_KEY)
    variables = {**visibility(split.engine), "VLLM_SERVER_DEV_MODE": "1"}
    process = ProcessSpec("vllm", argv, variables, ready, port, HOST)
    return EnginePlan(process, url, model, len(split.engine), facts.free_port(HOST))


def _sizes(config: TrainConfig, facts: MachineFacts, split: GpuSplit, model: str) -> Iterator[str]:
    length = model_length(config, LaunchMode.server, facts.model_settings(model))
    if length is not None:
        yield from ("--max-model-len", str(length))
    parts = config.launch.vllm_tensor_parallel
    if parts > 1:
        yield from ("--tensor-parallel-size", str(parts))
    if len(split.engine) > parts:
        yield from ("--data-parallel-size", str(len(split.engine) // parts))
    if grpo_value(config.grpo, "trust_remote_code") is True:
        yield "--trust-remote-code"


def engine_problems(config: TrainConfig) -> Iterator[Problem]:
    """Arguments of the server that would undo what TRL needs of it."""
    key, arguments = "launch.vllm_args", config.launch.vllm_args
    if arguments and not arguments[0].startswith("-"):
        message = f"{key} begins with {arguments[0]!r}, which vllm serve would take for a second model"
        yield Problem(key, message, f"write '{key}=[--option,value]'")
    for argument in arguments:
        # --weight_transfer_config.backend=x is one way of writing it.
        name = argument.partition("=")[0].partition(".")[0]
        name = name.replace("_", "-") if name.startswith("--") else name
        if name in _OURS:
            yield Problem(key, f"{key}: {name} is decided by the launch", _OURS[name])
