"""Hydra's launchers for the jobs of a sweep: hydra/launcher=submitit_slurm and its hydra.launcher.* keys.

The settings are those of the plugin hydra-submitit-launcher, composed and checked by Hydra. The jobs are submitted
with submitit as the plugin does it, but not by its own `launch`, which gives up on all jobs when the first one is
killed, and leaves those that run to themselves when somebody presses Ctrl-C.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from trl_envs.config.overrides import check_choice
from trl_envs.config.suggest import did_you_mean
from trl_envs.errors import ConfigError, PreflightError

_PREFIX = "hydra.launcher."
_CHOICE = "hydra/launcher"
# Hydra's own launcher is this command itself: one job after the other.
HERE = "basic"
LAUNCHERS = {"submitit_local": "local", "submitit_slurm": "slurm"}
# What the plugin hands to the executor's constructor.
_OF_THE_EXECUTOR = ("max_num_timeout",)
_SHARED = (
    "timeout_min",
    "cpus_per_task",
    "gpus_per_node",
    "tasks_per_node",
    "mem_gb",
    "nodes",
    "name",
    "stderr_to_stdout",
)


@dataclass(frozen=True)
class ClusterSettings:
    """Where the jobs of a sweep run.

    Args:
        launcher: A key of LAUNCHERS.
        values: The plugin's settings by name.
    """

    launcher: str
    values: dict[str, Any]


def split_launcher(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """What was typed about the launcher, and all else."""
    mine = [argument for argument in arguments if argument.lstrip("+").startswith((_CHOICE, _PREFIX))]
    return mine, [argument for argument in arguments if argument not in mine]


def compose_launcher(arguments: Sequence[str], folder: Path, name: str) -> ClusterSettings | None:
    """The launcher and its settings.

    Args:
        arguments: What was typed about it.
        folder: Where the jobs' logs go, unless a setting says otherwise.
        name: Of the jobs, unless a setting says otherwise.

    Returns:
        None for jobs that run here, one after the other.

    Raises:
        ConfigError: Another launcher, a setting that it doesn't have, or the plugin isn't installed.
    """
    chosen = [argument.partition("=")[2] for argument in arguments if argument.startswith(f"{_CHOICE}=")]
    settings = [argument for argument in arguments if not argument.startswith(f"{_CHOICE}=")]
    launcher = chosen[-1] if chosen else HERE
    check_choice(_CHOICE, launcher, [HERE, *LAUNCHERS])
    if launcher == HERE:
        if settings:
            raise ConfigError(f"{settings[0]} needs a launcher", f"add {_CHOICE}=submitit_slurm")
        return None
    if not _has_plugin():
        raise ConfigError(
            f"{_CHOICE}={launcher} needs the package hydra-submitit-launcher, which isn't installed",
            "pip install 'trl-env[slurm]'",
        )
    values = _compose(launcher, settings)
    given = [argument.lstrip("+").partition("=")[0].removeprefix(_PREFIX) for argument in settings]
    values |= {} if "submitit_folder" in given else {"submitit_folder": str(folder / "%j")}
    values |= {} if "name" in given else {"name": name}
    return ClusterSettings(launcher, values)


def make_executor(settings: ClusterSettings) -> Any:
    """submitit's executor with these settings, named for it as the plugin does.

    Raises:
        PreflightError: There is no such cluster here, or it doesn't take a value.
    """
    import submitit

    cluster = LAUNCHERS[settings.launcher]
    of_executor = {f"{cluster}_{k}": v for k, v in settings.values.items() if k in _OF_THE_EXECUTOR}
    kept = {k: v for k, v in settings.values.items() if k not in (*_OF_THE_EXECUTOR, "submitit_folder")}
    try:
        executor = submitit.AutoExecutor(settings.values["submitit_folder"], cluster=cluster, **of_executor)
        executor.update_parameters(**{k if k in _SHARED else f"{cluster}_{k}": v for k, v in kept.items()})
    except (RuntimeError, ValueError, NameError) as error:
        raise PreflightError(
            f"{_CHOICE}={settings.launcher} can't be used here: {str(error).splitlines()[0]}",
            f"submit from a machine of the cluster; {_CHOICE}=submitit_local runs the jobs on this one",
        ) from error
    return executor


def _has_plugin() -> bool:
    try:
        return importlib.util.find_spec("hydra_plugins.hydra_submitit_launcher") is not None
    except ModuleNotFoundError:
        # No plugin of Hydra at all.
        return False


def _compose(launcher: str, settings: Sequence[str]) -> dict[str, Any]:
    GlobalHydra.instance().clear()
    try:
        for setting in settings:
            if OverridesParser.create().parse_override(setting).is_sweep_override():
                raise ConfigError(f"{setting} has several values, and all jobs share a launcher", "give it one value")
        with hydra.initialize(config_path=None, version_base="1.3"):
            config = hydra.compose(overrides=[f"{_CHOICE}={launcher}", *settings], return_hydra_config=True)
    except (HydraException, OmegaConfBaseException) as error:
        raise _wrong_setting(launcher, settings, error) from error
    node = OmegaConf.to_container(config.hydra.launcher, resolve=True)
    return {str(key): value for key, value in dict(node).items() if key != "_target_"}  # type: ignore[arg-type]


def _wrong_setting(launcher: str, settings: Sequence[str], error: BaseException) -> ConfigError:
    known = sorted(_PREFIX + name for name in _compose(launcher, [])) if settings else []
    for setting in settings:
        key = setting.lstrip("+").partition("=")[0]
        if key.partition(".additional_parameters.")[0] not in known:
            return ConfigError(f"{_CHOICE}={launcher} has no setting {key}", did_you_mean(key, known))
    cause = error.__cause__ or error
    return ConfigError(f"{' '.join(settings)}: {str(cause).splitlines()[0]}", "give each setting a value of its type")
