"""Running the probe in the tests' own process, which has the heavy imports already."""

from __future__ import annotations

import os
from pathlib import Path

from tests.preflight.test_static import facts
from trl_envs.config.compose import Composed, compose
from trl_envs.plan.build import build_plan
from trl_envs.plan.launch_plan import LaunchPlan
from trl_envs.preflight.findings import Report
from trl_envs.preflight.live import read_report
from trl_envs.preflight.probe import probe
from trl_envs.preflight.probe_report import Collector
from trl_envs.preflight.probe_sessions import open_all
from trl_envs.rollout.session import SessionOpener, SessionSettings


def planned(folder: Path, *overrides: str) -> tuple[Composed, LaunchPlan]:
    recipe = [] if any(override.startswith("recipe=") for override in overrides) else ["recipe=catch"]
    composed = compose([*recipe, "preset=smoke", *overrides])
    return composed, build_plan(composed.config, facts(), folder, composed.import_folders)


def probed(folder: Path, *overrides: str, all_sessions: bool = False) -> Report:
    """The report of a probe in this process."""
    composed, plan = planned(folder, *overrides)
    collector = Collector(60)
    probe(composed.config, plan.as_dict(), collector, all_sessions=all_sessions)
    return reported(collector, folder)


def reported(collector: Collector, folder: Path) -> Report:
    with Path(os.devnull).open("wb") as nowhere:
        collector.emit(folder, nowhere.fileno())
    report = read_report(folder)
    assert report is not None
    return report


def opened(url: str, sessions: int) -> int:
    """How many sessions a server gives at once, without any wait."""
    held = open_all([SessionOpener([url], SessionSettings(capacity_wait_s=0))] * sessions)
    held.close()
    return len(held.sessions)
