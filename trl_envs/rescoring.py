"""What a run's recorded episodes would have scored by other reward terms."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from trl_envs.config.frozen import changed_config, flat_values
from trl_envs.config.recipes import import_folders
from trl_envs.config.schema import TrainConfig
from trl_envs.config.store import load_config, to_yaml
from trl_envs.errors import ConfigError, ProcessExited
from trl_envs.plan.spec import ProcessSpec
from trl_envs.results.outcome import Outcome
from trl_envs.results.rescored import Rescored, read_rescored
from trl_envs.results.rundir import RunDirectory, passing_run
from trl_envs.runtime.supervisor import Supervisor

_TERM = re.compile(r"envs\.[^.]+\.rewards(\.|$)")
_EXAMPLE = "envs.NAME.rewards.TERM.weight=0.5"


def rescore(run_dir: Path, arguments: Sequence[str]) -> Rescored:
    """Scores the episodes of training that a run has recorded; the run stays as it is.

    Args:
        run_dir: The run's directory.
        arguments: Overrides of its reward terms, as typed.

    Raises:
        ConfigError: There is no such run, it has no episodes, or an override that isn't about reward terms.
        TrlEnvError: A term can't be built, needs more than a record, or failed.
        Interrupted: Ctrl-C or a signal.
    """
    run = RunDirectory(run_dir.expanduser().absolute())
    if not run.config_file.is_file():
        raise ConfigError(f"{run_dir} is no run directory", "trl-env runs lists the runs of a folder")
    if not run.episodes_file.is_file() or not run.episodes_file.stat().st_size:
        raise ConfigError(f"the run {run_dir} has recorded no episodes", "rescore one that has trained a step")
    before = load_config(run.config_file)
    hint = f"what may change: reward terms, as in {_EXAMPLE}"
    after = changed_config(before, arguments, "a recorded run is rescored", hint)
    _refuse_others(before, after, hint)
    with passing_run("rescore") as changed:
        changed.write_config(to_yaml(after))
        changed.write_plan({"import_folders": list(dict.fromkeys([*_folders(run), *import_folders()]))})
        command = (sys.executable, "-m", "trl_envs.evaluate.rescore", str(run.path), str(changed.path))
        with Supervisor(changed.logs_dir) as supervisor:
            child = supervisor.start(ProcessSpec("rescore", command))
            supervisor.watch(child)
        found = read_rescored(changed.path)
        error = found.exception() if isinstance(found, Outcome) else None
        if error is not None:
            raise error
        if not isinstance(found, Rescored):
            raise ProcessExited(f"the rescoring ended early: {child.describe_exit()}\n{child.describe_log()}")
        return found


def _folders(run: RunDirectory) -> list[str]:
    """From where the run's own terms were imported."""
    try:
        folders: list[str] = json.loads(run.plan_file.read_text(encoding="utf-8"))["import_folders"]
    except (FileNotFoundError, ValueError, KeyError) as error:
        raise ConfigError(
            f"{run.plan_file} can't be read: {error}", "name a run directory that trl-env made"
        ) from error
    return folders


def _refuse_others(before: TrainConfig, after: TrainConfig, hint: str) -> None:
    """Refuses overrides that no recorded episode can follow.

    Raises:
        ConfigError: Something else than reward terms has changed.
    """
    old, new = flat_values(before), flat_values(after)
    changed = [key for key in {**old, **new} if old.get(key) != new.get(key) and not _TERM.match(key)]
    if changed:
        raise ConfigError(f"{', '.join(changed)} can't be changed for episodes that are played already", hint)
