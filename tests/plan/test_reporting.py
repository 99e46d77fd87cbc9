"""Where metrics go beside the run directory: Trackio where it is installed, another or none by override."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from tests.plan.test_build import plan
from trl_envs.cli.display import TrainDisplay
from trl_envs.results.rundir import RunDirectory

INSTALLED = {"trackio": "0.43.0"}


@pytest.mark.parametrize(
    ("overrides", "versions", "report_to"),
    [
        ((), {}, ()),
        ((), {"trackio": None}, ()),
        ((), INSTALLED, ("trackio",)),
        (("logging.report_to=[]",), INSTALLED, ()),
        (("logging.report_to=[wandb]",), INSTALLED, ("wandb",)),
        (("logging.report_to=[trackio]",), {}, ("trackio",)),
    ],
    ids=["nothing", "absent", "installed", "none", "wandb", "asked"],
)
def test_where_metrics_go(
    overrides: tuple[str, ...], versions: dict[str, str | None], report_to: tuple[str, ...]
) -> None:
    planned = plan(*overrides, versions=versions)
    assert planned.report_to == report_to
    assert planned.as_dict()["report_to"] == report_to


def test_the_run_says_how_to_watch_it(tmp_path: Path) -> None:
    said = []
    for versions in ({}, INSTALLED):
        console = Console(file=io.StringIO(), width=100)
        TrainDisplay(console).planned(plan("logging.project=my games", versions=versions), RunDirectory(tmp_path))
        said.append(console.file.getvalue())  # type: ignore[attr-defined]
    assert "trackio" not in said[0]
    assert "watch    trackio show --project 'my games'" in said[1]
