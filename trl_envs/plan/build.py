"""From a config and the machine to a launch plan. Pure: it starts nothing and touches no file."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trl_envs.config.schema import EnvConfig, LaunchMode, ServerMode, TrainConfig
from trl_envs.config.token import sends_token
from trl_envs.errors import PreflightError
from trl_envs.machine import Gpu
from trl_envs.plan.batch import BatchPlan, build_batch
from trl_envs.plan.launch_plan import EnvironmentPlan, LaunchPlan
from trl_envs.plan.spec import ProcessSpec, ReadySpec

# Without a network the trainer's telemetry would wait for its time-outs; it is the user's to turn on.
_TRAINER_VARIABLES = {
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "PYTHONUNBUFFERED": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TRL_EXPERIMENTAL_SILENCE": "1",
}


@dataclass(frozen=True)
class MachineFacts:
    """What a plan depends on besides the config.

    Args:
        gpus: Visible CUDA devices.
        mps: Whether it is an Apple machine with Metal.
        vllm: Installed version of vLLM, or None.
        free_port: Gives a free TCP port for a host.
        variables: The launcher's environment variables.
    """

    gpus: Sequence[Gpu]
    mps: bool
    vllm: str | None
    free_port: Callable[[str], int]
    variables: Mapping[str, str]


def build_plan(config: TrainConfig, facts: MachineFacts, run_dir: Path, import_folders: Sequence[str]) -> LaunchPlan:
    """Plans a run.

    Args:
        config: What was asked for.
        facts: What the machine has.
        run_dir: Directory of the run, which need not exist yet.
        import_folders: Folders to put on PYTHONPATH of all processes.

    Raises:
        PreflightError: The config asks for what can't work here.
    """
    batch = build_batch(config)
    mode, reason = _launch_mode(config, facts)
    path = _python_path(import_folders, facts.variables)
    environments = {name: _environment(name, env, config, batch, facts, path) for name, env in config.envs.items()}
    trainer = ProcessSpec(
        "trainer",
        (sys.executable, "-m", "trl_envs.training.worker", str(run_dir)),
        {**{k: v for k, v in _TRAINER_VARIABLES.items() if k not in facts.variables}, **path},
    )
    device = "cuda" if facts.gpus else "mps" if facts.mps else "cpu"
    return LaunchPlan(mode.name, reason, device, batch, environments, trainer, tuple(import_folders))


def build_servers(
    config: TrainConfig, facts: MachineFacts, sessions: int, import_folders: Sequence[str]
) -> dict[str, ProcessSpec]:
    """The embedded servers alone, by environment, each for so many sessions."""
    path = _python_path(import_folders, facts.variables)
    return {name: _local_server(name, env, config, sessions, facts, path) for name, env in config.envs.items()}


def _launch_mode(config: TrainConfig, facts: MachineFacts) -> tuple[LaunchMode, str]:
    asked = config.launch.mode
    if config.launch.processes != 1:
        raise PreflightError(
            f"launch.processes={config.launch.processes}: this version trains in one process", "set launch.processes=1"
        )
    if asked is LaunchMode.server:
        raise PreflightError(
            "launch=server (a vLLM server beside the trainer) isn't in this version",
            "use launch=colocate on a GPU, or launch=single",
        )
    if asked is LaunchMode.colocate and not facts.gpus:
        raise PreflightError("launch=colocate generates with vLLM, and no GPU is visible", "use launch=single")
    if asked is LaunchMode.colocate and facts.vllm is None:
        raise PreflightError("launch=colocate needs vLLM, which isn't installed", "pip install 'trl-env[vllm]'")
    if asked is not LaunchMode.auto:
        return asked, "asked for"
    if not facts.gpus:
        return LaunchMode.single, "no GPU is visible: the model generates with transformers"
    if facts.vllm is None:
        return LaunchMode.single, "vLLM isn't installed: the model generates with transformers"
    return LaunchMode.colocate, f"GPU {facts.gpus[0].name} and vLLM {facts.vllm}: vLLM inside the trainer"


def _environment(
    name: str,
    env: EnvConfig,
    config: TrainConfig,
    batch: BatchPlan,
    facts: MachineFacts,
    path: Mapping[str, str],
) -> EnvironmentPlan:
    if env.url is not None:
        urls = _urls(name, env.url)
        return EnvironmentPlan(urls, batch.sessions, None, token=sends_token(config.server, urls))
    mode = env.server or config.server.mode
    if mode is ServerMode.local:
        process = _local_server(name, env, config, batch.sessions, facts, path)
        url = f"http://{process.host}:{process.port}"
        return EnvironmentPlan((url,), batch.sessions, process, token=False)
    if mode is ServerMode.url:
        raise PreflightError(f"server=url, and envs.{name}.url isn't set", f"add envs.{name}.url=http://HOST:PORT")
    raise PreflightError(
        f"envs.{name}: server={mode.name} isn't in this version",
        f"start that server yourself and add envs.{name}.url=http://HOST:PORT, or use server=local",
    )


def _urls(name: str, value: Any) -> tuple[str, ...]:
    urls: list[str] = value if isinstance(value, list) else [value]
    for url in urls:
        if not isinstance(url, str) or not url.startswith(("http://", "https://")):
            raise PreflightError(f"envs.{name}.url={url!r} is no http(s) URL", f"envs.{name}.url=http://HOST:PORT")
        if "@" in url.partition("://")[2].partition("/")[0]:
            raise PreflightError(
                f"envs.{name}.url holds a password, which would land in the run directory",
                "put a token into the variable that server.token_env names, and leave it out of the URL",
            )
    if not urls:
        raise PreflightError(f"envs.{name}.url is an empty list", f"envs.{name}.url=http://HOST:PORT")
    return tuple(url.rstrip("/") for url in urls)


def _local_server(
    name: str, env: EnvConfig, config: TrainConfig, sessions: int, facts: MachineFacts, path: Mapping[str, str]
) -> ProcessSpec:
    if env.app is None:
        raise PreflightError(
            f"envs.{name} has no embedded server (envs.{name}.app)",
            f"name one, or use envs.{name}.url=http://HOST:PORT",
        )
    several = len(config.envs) > 1
    if several and config.server.port is not None:
        raise PreflightError(
            f"server.port={config.server.port} can't serve {len(config.envs)} environments", "leave server.port=null"
        )
    port = config.server.port or facts.free_port(config.server.host)
    variables = {
        **path,
        **{key: str(value) for key, value in env.variables.items()},
        # A closed session is released a moment later than the next one opens, hence a few more than the run holds.
        "MAX_CONCURRENT_ENVS": str(sessions + max(2, sessions // 8)),
    }
    argv = (sys.executable, "-m", "uvicorn", env.app, "--host", config.server.host, "--port", str(port))
    ready = ReadySpec(f"http://{config.server.host}:{port}/health", config.server.ready_timeout_s)
    return ProcessSpec(f"server-{name}", (*argv, "--log-level", "warning"), variables, ready, port, config.server.host)


def _python_path(folders: Sequence[str], variables: Mapping[str, str]) -> dict[str, str]:
    known = [part for part in variables.get("PYTHONPATH", "").split(os.pathsep) if part]
    new = [folder for folder in folders if folder not in known]
    return {"PYTHONPATH": os.pathsep.join([*new, *known])} if new else {}
