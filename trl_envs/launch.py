"""The pipeline of a run, from a composed config to what came of it, on one page."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from trl_envs.config.compose import Composed
from trl_envs.config.schema import TrainConfig
from trl_envs.config.store import to_yaml
from trl_envs.errors import Interrupted, ProcessExited, StartupError, TrlEnvError
from trl_envs.machine import free_port, gpus, has_mps, installed_versions
from trl_envs.plan.build import build_plan
from trl_envs.plan.facts import MachineFacts
from trl_envs.plan.launch_plan import LaunchPlan
from trl_envs.preflight.findings import Report, raise_errors
from trl_envs.preflight.live import GRACE_S, forget_report, probe_deadline_s, probe_spec, read_report
from trl_envs.preflight.rules import check_static
from trl_envs.preflight.run_rules import WINDOWS
from trl_envs.results.comparison import describe_evaluations
from trl_envs.results.curves import draw_run
from trl_envs.results.episodes import count_episodes
from trl_envs.results.evaluation import read_evaluation
from trl_envs.results.metrics import read_metrics
from trl_envs.results.outcome import Outcome, read_outcome
from trl_envs.results.record import RunRecord, RunStatus, write_record
from trl_envs.results.rundir import RunDirectory
from trl_envs.runtime.child import Child
from trl_envs.runtime.supervisor import Supervisor
from trl_envs.servers.health import Heartbeat
from trl_envs.servers.start import heartbeat, start_servers

RECORDED_PACKAGES = ("trl-env", "torch", "transformers", "trl", "openenv", "vllm", "datasets", "peft", "accelerate")


class Display(Protocol):
    """What a run shows as it goes; it decides nothing."""

    def planned(self, plan: LaunchPlan, run: RunDirectory) -> None:
        """The plan, before anything starts."""

    def server_ready(self, name: str, urls: tuple[str, ...], seconds: float) -> None:
        """The servers of an environment answer."""

    def probing(self) -> None:
        """The probe begins, which takes some seconds."""

    def probed(self, report: Report) -> None:
        """What the probe measured, and its warnings."""

    def training(self, run: RunDirectory, plan: LaunchPlan) -> AbstractContextManager[Callable[[], None]]:
        """Around the training; gives what is to be called a few times a second."""

    def evaluating(self, run: RunDirectory, name: str, episodes: int) -> AbstractContextManager[Callable[[], None]]:
        """Around an evaluation of so many episodes; gives what is to be called a few times a second."""


def plan_run(composed: Composed) -> LaunchPlan:
    """The plan of a run that doesn't exist yet.

    Raises:
        PreflightError: The config asks for what can't work on this machine.
    """
    return _checked_plan(composed, _wanted_directory(composed), machine_facts())


def check(composed: Composed, display: Display, *, all_sessions: bool = False) -> Report:
    """Finds out whether a run can work, without training: the rules, and the probe if they have no objection.

    Args:
        composed: What was asked for.
        display: Shows it.
        all_sessions: Whether to open all sessions on public Spaces too.

    Raises:
        StartupError: A server didn't start, or the probe hung.
        ProcessExited: A server or the probe ended too early.
        Interrupted: Ctrl-C or a signal.
    """
    facts = machine_facts()
    report = Report(check_static(composed.config, facts))
    if report.errors:
        return report
    with TemporaryDirectory(prefix="trl-env-check-") as folder:
        run = RunDirectory(Path(folder))
        plan = build_plan(composed.config, facts, run.path, composed.import_folders)
        _write_down(run, composed, plan)
        with _standing(run, plan, composed.config, display) as stage:
            return _probe(stage, all_sessions=all_sessions)


def train(composed: Composed, display: Display, *, all_sessions: bool = False) -> RunRecord:
    """Runs a recipe.

    Args:
        composed: What was asked for.
        display: Shows it.
        all_sessions: Whether the probe may open all sessions on public Spaces too.

    Returns:
        What came of it.

    Raises:
        PreflightError: It can't work; nothing was started or written, or only what it takes to find out.
        StartupError: A server or the trainer didn't start.
        ProcessExited: A process ended before the run did.
        TrainingFailed: Training broke off, or ended without a step; or an evaluation failed.
        Interrupted: Ctrl-C or a signal.
    """
    wanted, facts = _wanted_directory(composed), machine_facts()
    _checked_plan(composed, wanted, facts)
    run = RunDirectory.create(wanted.parent, wanted.name)
    plan = build_plan(composed.config, facts, run.path, composed.import_folders)
    _write_down(run, composed, plan)
    display.planned(plan, run)
    versions = installed_versions(RECORDED_PACKAGES)
    record = RunRecord.begin(run.name, composed.config.recipe, composed.config.preset, versions)
    write_record(run, record)
    try:
        record.global_step = _execute(run, plan, composed.config, display, all_sessions=all_sessions)
        record.model_dir = str(run.model_dir)
        record.end("finished", 0)
    except TrlEnvError as error:
        status: RunStatus = "interrupted" if isinstance(error, Interrupted) else "failed"
        record.end(status, error.exit_code, error.message)
        raise
    except BaseException as error:
        record.end("failed", 1, f"{type(error).__name__}: {error}")
        raise
    finally:
        _count(run, record)
        write_record(run, record)
    draw_run(run)
    return record


def _execute(run: RunDirectory, plan: LaunchPlan, config: TrainConfig, display: Display, *, all_sessions: bool) -> int:
    """Starts what is needed, in order, waits for the trainer, and stops everything, however it ends."""
    with _standing(run, plan, config, display) as stage:
        report = _probe(stage, all_sessions=all_sessions)
        display.probed(report)
        raise_errors(report)
        _evaluate("before", stage)
        steps = _train(stage)
        _evaluate("after", stage)
    return steps


@contextmanager
def _standing(run: RunDirectory, plan: LaunchPlan, config: TrainConfig, display: Display) -> Iterator[_Stage]:
    """The servers of a run, started, answering and listened to; stopped with all else at the end."""
    with Supervisor(run.logs_dir) as supervisor:
        servers = start_servers(plan, supervisor, display.server_ready)
        with heartbeat(plan, servers, config.server, config.rollout) as beat:
            yield _Stage(run, plan, config, display, supervisor, beat)


@dataclass(frozen=True)
class _Stage:
    """What stands once the servers do: on it the children play, one after the other."""

    run: RunDirectory
    plan: LaunchPlan
    config: TrainConfig
    display: Display
    supervisor: Supervisor
    beat: Heartbeat

    def wait(self, child: Child, tick: Callable[[], None]) -> int:
        """Waits for a child's exit code; a server that dies or hangs meanwhile is an error."""

        def look() -> None:
            tick()
            self.beat.check()

        return self.supervisor.watch(child, look)


def _probe(stage: _Stage, *, all_sessions: bool) -> Report:
    """Tries in a child what can only be tried: imports, template, sessions, an episode."""
    forget_report(stage.run.path)
    stage.display.probing()
    probe = stage.supervisor.start(probe_spec(stage.plan, stage.run.path, all_sessions=all_sessions))
    limit_s = probe_deadline_s(stage.config.rollout) + GRACE_S
    give_up_at_s = time.monotonic() + limit_s

    def tick() -> None:
        if time.monotonic() > give_up_at_s:
            raise StartupError(
                f"the probe gave no result within {limit_s:g} s\n{probe.describe_log()}",
                f"see what it hangs at: {probe.spec.command()}",
            )

    code = stage.wait(probe, tick)
    report = read_report(stage.run.path)
    if code != 0 or report is None:
        raise _ended_early("the probe", probe)
    return report


def _train(stage: _Stage) -> int:
    """Trains; returns the number of steps."""
    trainer = stage.supervisor.start(stage.plan.trainer)
    with stage.display.training(stage.run, stage.plan) as tick:
        code = stage.wait(trainer, tick)
    return _result(stage.run, trainer, code)


def _evaluate(name: str, stage: _Stage) -> None:
    """Has a model play `before` or `after` training, if the plan has that."""
    if name not in stage.plan.evaluations:
        return
    child = stage.supervisor.start(stage.plan.evaluations[name])
    episodes = stage.config.eval.episodes * len(stage.config.envs)
    with stage.display.evaluating(stage.run, name, episodes) as tick:
        code = stage.wait(child, tick)
    found = read_evaluation(stage.run, name)
    error = found.exception() if isinstance(found, Outcome) else None
    if error is not None:
        raise error
    if code != 0 or found is None:
        raise _ended_early(f"the evaluation {name} training", child)


def _result(run: RunDirectory, trainer: Child, code: int) -> int:
    """The number of steps of a trainer that ended, or its error."""
    outcome = read_outcome(run)
    error = outcome.exception() if outcome is not None else None
    if error is not None:
        raise error
    if code != 0 or outcome is None or outcome.global_step is None:
        raise _ended_early("the trainer", trainer)
    return outcome.global_step


def _ended_early(what: str, child: Child) -> ProcessExited:
    return ProcessExited(
        f"{what} ended before the run did: {child.describe_exit()}\n{child.describe_log()}",
        f"the whole log is {child.log}",
    )


def _count(run: RunDirectory, record: RunRecord) -> None:
    """Notes how far the run came."""
    metrics = [line for line in read_metrics(run.metrics_file) if "reward" in line]
    if metrics:
        record.final_metrics = metrics[-1]
        record.global_step = max(record.global_step, int(metrics[-1]["step"]))
    counts = count_episodes(run.episodes_file)
    record.episodes, record.lost_episodes = counts.episodes, counts.lost
    record.evaluation = describe_evaluations(run)


def _checked_plan(composed: Composed, run_dir: Path, facts: MachineFacts) -> LaunchPlan:
    raise_errors(Report(check_static(composed.config, facts)))
    return build_plan(composed.config, facts, run_dir, composed.import_folders)


def machine_facts() -> MachineFacts:
    """What this machine has."""
    return MachineFacts(
        gpus=gpus(),
        mps=has_mps(),
        vllm=installed_versions(["vllm"])["vllm"],
        free_port=free_port,
        variables=dict(os.environ),
        versions=installed_versions(WINDOWS),
    )


def _wanted_directory(composed: Composed) -> Path:
    name = composed.config.run_name
    if name is None:
        stamp = time.strftime("%Y%m%d-%H%M%S")
        preset = "" if composed.config.preset == "full" else f"-{composed.config.preset}"
        name = f"{re.sub(r'[^A-Za-z0-9_.-]', '-', composed.config.recipe)}{preset}-{stamp}"
    return Path(composed.config.output_dir).expanduser().absolute() / name


def _write_down(run: RunDirectory, composed: Composed, plan: LaunchPlan) -> None:
    run.write_config(to_yaml(composed.config))
    run.write_overrides(list(composed.overrides))
    run.write_plan(plan.as_dict())
