"""The pipeline of a run, from a composed config to what came of it, on one page."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path

from trl_envs.config.compose import Composed
from trl_envs.config.grpo_fields import grpo_value
from trl_envs.config.resume import resumed
from trl_envs.config.schema import LaunchMode
from trl_envs.config.store import to_yaml
from trl_envs.errors import ConfigError, Interrupted, TrlEnvError
from trl_envs.leaving import leave_report
from trl_envs.machine import (
    accelerate_configs,
    cpus,
    docker_problem,
    find_conflicts,
    free_port,
    gpus,
    has_mps,
    installed_versions,
    vllm_program,
)
from trl_envs.paths import make_importable
from trl_envs.plan.build import build_plan
from trl_envs.plan.facts import MachineFacts
from trl_envs.plan.launch_plan import LaunchPlan
from trl_envs.plan.mode import INSTALL_VLLM
from trl_envs.plan.sft import SftPlan
from trl_envs.preflight.findings import Report, raise_errors
from trl_envs.preflight.rules import check_static
from trl_envs.preflight.versions import ASKING, ASSUMED_VLLM, CHECKED
from trl_envs.results.comparison import describe_evaluations
from trl_envs.results.episodes import count_episodes
from trl_envs.results.metrics import read_metrics
from trl_envs.results.outcome import read_outcome
from trl_envs.results.record import RunRecord, RunStatus, write_record
from trl_envs.results.rundir import RunDirectory, passing_run
from trl_envs.results.runs import summarize_run
from trl_envs.stage import build_watch, standing
from trl_envs.stage.display import Display

RECORDED_PACKAGES = ("trl-env", "torch", "transformers", "trl", "openenv", "vllm", "datasets", "peft", "accelerate")


def plan_run(composed: Composed) -> tuple[LaunchPlan, str]:
    """The plan of a run that doesn't exist yet, and what was taken for granted; the text is empty if nothing was.

    Where the config asks for a launch with vLLM, this machine need not have it to show one.

    Raises:
        PreflightError: The config asks for what can't work on this machine.
    """
    facts, assumed = machine_facts(), ""
    if facts.vllm is None and composed.config.launch.mode in (LaunchMode.colocate, LaunchMode.server):
        facts = replace(facts, vllm=ASSUMED_VLLM, versions={**facts.versions, "vllm": ASSUMED_VLLM})
        assumed = f"vLLM isn't installed here; this is the plan with {ASSUMED_VLLM} ({INSTALL_VLLM})"
    return _checked_plan(composed, wanted_directory(composed), facts), assumed


def check(composed: Composed, display: Display, *, all_sessions: bool = False) -> Report:
    """Finds out whether a run can work, without training: the rules, and the probe if they have no objection.

    Args:
        composed: What was asked for.
        display: Shows it.
        all_sessions: Whether to open all sessions on Spaces of others too.

    Raises:
        PreflightError: There is no such Space, or no token for it.
        StartupError: A server didn't start, a Space can't be had, or the probe hung.
        ProcessExited: A server or the probe ended too early.
        Interrupted: Ctrl-C or a signal.
    """
    facts = machine_facts()
    report = Report(check_static(composed.config, facts))
    if report.errors:
        return report
    with passing_run("check", "train with the same words keeps the whole log, in its run directory") as run:
        plan = build_plan(composed.config, facts, run.path, composed.import_folders)
        write_down(run, composed, plan)
        with standing(run, plan, composed, display, play=False) as stage:
            return stage.probe(all_sessions=all_sessions)


def train(composed: Composed, display: Display, *, all_sessions: bool = False) -> RunRecord:
    """Runs a recipe.

    Args:
        composed: What was asked for.
        display: Shows it.
        all_sessions: Whether the probe may open all sessions on Spaces of others too.

    Returns:
        What came of it.

    Raises:
        PreflightError: It can't work; nothing was started or written, or only what it takes to find out.
        StartupError: A server or the trainer didn't start.
        ProcessExited: A process ended before the run did.
        TrainingFailed: Training broke off, or ended without a step; or an evaluation failed.
        Interrupted: Ctrl-C or a signal.
    """
    wanted, facts = wanted_directory(composed), machine_facts()
    _checked_plan(composed, wanted, facts)
    run = RunDirectory.create(wanted.parent, wanted.name)
    plan = build_plan(composed.config, facts, run.path, composed.import_folders)
    return _carry_out(run, composed, plan, display, attempt=1, all_sessions=all_sessions)


def resume(run_dir: Path, arguments: Sequence[str], display: Display, *, all_sessions: bool = False) -> RunRecord:
    """Goes on with a run from its last checkpoint, in its own directory.

    Args:
        run_dir: The run's directory.
        arguments: Overrides as typed; what the checkpoint follows from can't change (config/resume.py).
        display: Shows it.
        all_sessions: Whether the probe may open all sessions on Spaces of others too.

    Returns:
        What came of it.

    Raises:
        ConfigError: There is no such run, it is still going, it has no checkpoint, or an override can't be made.
        TrlEnvError: As `train`.
    """
    run = RunDirectory(run_dir.expanduser().absolute())
    before = summarize_run(run) if run.config_file.is_file() else None
    if before is None or before.record is None:
        raise ConfigError(f"{run_dir} is no run directory", "trl-env runs lists the runs of a folder")
    if before.record.kind != "grpo":
        raise ConfigError(
            f"the run {run_dir} is a warm-up, and no training of this kind",
            f"train on from what it has learnt: trl-env train recipe={before.record.recipe} model={run_dir}",
        )
    if before.status == "running":
        raise ConfigError(f"the run {run_dir} is still going (pid {before.record.pid})", "stop it first")
    checkpoint = run.last_checkpoint()
    if checkpoint is None:
        raise ConfigError(
            f"the run {run_dir} has no checkpoint to go on from",
            "start it anew; grpo.save_strategy=steps grpo.save_steps=50 makes a checkpoint every 50 steps",
        )
    folders = json.loads(run.plan_file.read_text(encoding="utf-8"))["import_folders"]
    make_importable(folders)
    composed = resumed(run.path, arguments, folders)
    _refuse_end_behind(composed, checkpoint)
    attempt = before.record.attempt + 1
    plan = _checked_plan(composed, run.path, machine_facts()).resuming(attempt, str(checkpoint))
    return _carry_out(run, composed, plan, display, attempt=attempt, all_sessions=all_sessions)


def _refuse_end_behind(composed: Composed, checkpoint: Path) -> None:
    """Refuses to go on from a checkpoint at or behind the end: the trainer would take a step beyond it all the same."""
    step, end = int(checkpoint.name.rpartition("-")[2]), grpo_value(composed.config.grpo, "max_steps")
    if isinstance(end, int) and 0 < end <= step:
        raise ConfigError(
            f"the last checkpoint is at step {step}, and grpo.max_steps={end}: there is nothing left to train",
            f"go on to a later end: grpo.max_steps={step + 10}",
        )


def _carry_out(
    run: RunDirectory, composed: Composed, plan: LaunchPlan, display: Display, *, attempt: int, all_sessions: bool
) -> RunRecord:
    """One attempt at a run, from what is written down before it to the record of what came of it."""
    write_down(run, composed, plan)
    display.planned(plan, run)
    versions = installed_versions(RECORDED_PACKAGES)
    record = RunRecord.begin(run, composed.config.recipe, composed.config.preset, versions, attempt)
    write_record(run, record)
    watch = build_watch(run, composed.config, display.warned)
    try:
        with standing(run, plan, composed, display) as stage:
            report = stage.probe(all_sessions=all_sessions)
            display.probed(report)
            raise_errors(report)
            with stage.generating():
                stage.evaluate("before")
                record.global_step = stage.train(watch)
            # Of several machines the first one alone gets the model.
            record.model_dir = str(run.model_dir) if run.model_dir.is_dir() else None
            stage.evaluate("after")
        record.end("finished", 0)
    except TrlEnvError as caught:
        error = _outlived(run, record, caught)
        status: RunStatus = "interrupted" if isinstance(error, Interrupted) else "failed"
        record.end(status, error.exit_code, error.message)
        if error is caught:
            raise
        raise error from caught
    except BaseException as error:
        record.end("failed", 1, f"{type(error).__name__}: {error}")
        raise
    finally:
        record.signs = [asdict(sign) for sign in watch.signs]
        _count(run, record)
        write_record(run, record)
        display.reported(run, leave_report(run, composed.config, picture=record.status != "interrupted"))
    return record


def _outlived(run: RunDirectory, record: RunRecord, error: TrlEnvError) -> TrlEnvError:
    """What is to be said of a run that an error ended: a signal may have come when the trainer had done its work."""
    if not isinstance(error, Interrupted):
        return error
    if run.last_checkpoint() is not None:
        error.hint = f"go on from its last checkpoint: trl-env train --resume {run.path}"
    outcome = read_outcome(run)
    if outcome is None:
        return error
    if outcome.global_step is not None and run.model_dir.is_dir():
        record.model_dir, record.global_step = str(run.model_dir), outcome.global_step
        error.message += f" when training was over; the model is {run.model_dir}"
        error.hint = ""
    return outcome.exception() or error


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
        versions=installed_versions(CHECKED),
        cpus=cpus(),
        # Several rules may ask, and an engine that hangs should be waited for once.
        docker_problem=cache(docker_problem),
        vllm_program=vllm_program(),
        accelerate_configs=accelerate_configs(),
        conflicts=find_conflicts(ASKING, CHECKED),
    )


def default_run_name(composed: Composed, kind: str = "") -> str:
    """`<recipe>-<kind>-<preset>-<time>`, the preset only if it isn't `full`."""
    word = f"-{kind}" if kind else ""
    preset = "" if composed.config.preset == "full" else f"-{composed.config.preset}"
    recipe = re.sub(r"[^A-Za-z0-9_.-]", "-", composed.config.recipe)
    return f"{recipe}{word}{preset}-{time.strftime('%Y%m%d-%H%M%S')}"


def wanted_directory(composed: Composed, kind: str = "") -> Path:
    """Where a run will lie, unless the name is taken.

    Args:
        composed: Says where, and gives the name or what it is made of.
        kind: A word for a made-up name.
    """
    name = composed.config.run_name
    folder = Path(composed.config.output_dir).expanduser().absolute()
    return folder / (default_run_name(composed, kind) if name is None else name)


def write_down(run: RunDirectory, composed: Composed, plan: LaunchPlan | SftPlan) -> None:
    """Writes what the children read, and what was typed."""
    run.write_config(to_yaml(composed.config))
    run.add_overrides(list(composed.overrides))
    run.write_plan(plan.as_dict())
