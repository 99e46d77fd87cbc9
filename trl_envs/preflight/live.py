"""The live probe as the launcher sees it: a process to start, and the report that it leaves in the run directory."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from trl_envs.config.schema import RolloutConfig
from trl_envs.plan.launch_plan import LaunchPlan
from trl_envs.plan.spec import ProcessSpec
from trl_envs.preflight.findings import Finding, Report

ALL_SESSIONS = "--all-sessions"
# For imports, the model's tokenizer and scripted episodes, beside waiting for servers.
BASE_DEADLINE_S = 120.0
# A probe that doesn't even keep its own deadline is stopped this much later.
GRACE_S = 30.0
_REPORT_FILE = "preflight.json"


def probe_spec(plan: LaunchPlan, run_dir: Path, *, all_sessions: bool) -> ProcessSpec:
    """The probe of a run.

    Args:
        plan: The run's plan, written to the run directory already.
        run_dir: The run directory.
        all_sessions: Whether to open all sessions on Spaces of others too.
    """
    argv = (sys.executable, "-m", "trl_envs.preflight.probe", str(run_dir), *([ALL_SESSIONS] if all_sessions else []))
    return ProcessSpec("probe", argv, plan.trainer.variables)


def probe_deadline_s(rollout: RolloutConfig) -> float:
    """Seconds after which the probe ends with what it has found: time for three calls that hang, beside the rest."""
    return BASE_DEADLINE_S + 3 * rollout.call_timeout_s


def write_report(run_dir: Path, report: Report) -> None:
    """Leaves a report for the launcher, whole or not at all."""
    draft = run_dir / f".{_REPORT_FILE}.tmp"
    draft.write_text(json.dumps(report.as_dict(), indent=2) + "\n", encoding="utf-8")
    draft.replace(run_dir / _REPORT_FILE)


def forget_report(run_dir: Path) -> None:
    """Removes the report of an earlier attempt."""
    (run_dir / _REPORT_FILE).unlink(missing_ok=True)


def read_report(run_dir: Path) -> Report | None:
    """What the probe left; None if it ended without a word."""
    try:
        data = json.loads((run_dir / _REPORT_FILE).read_text(encoding="utf-8"))
        return Report([Finding.from_dict(finding) for finding in data["findings"]], dict(data["figures"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
