from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from trl_envs.results.record import RunRecord
from trl_envs.results.rundir import RunDirectory
from trl_envs.results.runs import RunSummary
from trl_envs.results.tables import format_duration, outcome_table, run_causes, run_table


def render(table: Table, width: int = 160) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(table)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def cells(text: str, label: str) -> list[str]:
    """The cells of the row that begins with a label."""
    line = next(line for line in text.splitlines() if re.match(rf"│ {re.escape(label)} ", line))
    return [cell.strip() for cell in line.strip("│").split("│")][1:]


def step(number: int, caught: float | None, **more: object) -> dict[str, object]:
    return {"step": number, "reward": caught, "rewards/catch.caught/mean": caught, **more}


def test_the_outcome_of_a_run() -> None:
    metrics = [
        step(1, 0.25, **{"tools/call_frequency": 4.0, "tools/failure_frequency": 0.1, "time/environment_s": 1.5,
                         "episodes/played": 16, "episodes/lost": 0, "completions/mean_length": 812.5}),
        step(2, 0.75, **{"tools/call_frequency": 5.0, "tools/failure_frequency": 0.02, "time/environment_s": 2.5,
                         "episodes/played": 16, "episodes/lost": 3}),
        step(3, 0.5, **{"tools/failure_frequency": 0.05, "rewards/catch.moves/mean": -0.125}),
        {"step": 3, "train_runtime": 12.0},
    ]  # fmt: skip
    text = render(outcome_table(metrics))
    assert cells(text, "catch.caught") == ["0.250", "0.500", "0.750 at 2", ""]
    assert cells(text, "catch.moves") == ["-0.125", "-0.125", "-0.125 at 3", ""]
    assert cells(text, "reward") == ["0.250", "0.500", "0.750 at 2", ""]
    assert cells(text, "failed tool calls") == ["0.100", "0.050", "0.020 at 2", ""]
    assert cells(text, "tool calls per episode") == ["4.000", "5.000", "", ""]
    assert cells(text, "tokens per episode") == ["812.5", "812.5", "", ""]
    assert cells(text, "seconds in environment") == ["1.500", "2.500", "", "4.000"]
    assert cells(text, "episodes") == ["16", "16", "", "32"]
    assert cells(text, "lost episodes") == ["0.000", "3.000", "", "3.000"]
    assert "seconds in generation" not in text
    assert "3 logged steps" in text


def test_a_term_that_was_never_scored_and_one_that_was_not_at_first() -> None:
    text = render(outcome_table([step(1, None), step(2, None, **{"rewards/echo.same/mean": 1.0})]))
    assert cells(text, "catch.caught") == ["never scored", "", "", ""]
    assert cells(text, "echo.same") == ["1.000", "1.000", "1.000 at 2", ""]
    assert cells(render(outcome_table([step(1, None), step(2, 0.5)])), "catch.caught")[:2] == ["0.500", "0.500"]


def test_one_step_and_none() -> None:
    text = render(outcome_table([step(1, 0.5), {"step": 1, "train_runtime": 3.0}]))
    assert cells(text, "reward") == ["0.500", "0.500", "0.500 at 1", ""]
    assert "Only one step was logged" in text
    assert "No step was logged" in render(outcome_table([]))
    assert "No step was logged" in render(outcome_table([{"step": 0, "train_runtime": 3.0}]))


def test_runs_with_their_outcomes(tmp_path: Path) -> None:
    record = RunRecord(
        "catch", "catch", "smoke", "failed", "2026-12-01T10:00:00.000+00:00", message="[red] died\nsecond line",
        seconds=185.0, global_step=7, final_metrics={"reward": 0.5}, episodes=64, lost_episodes=2,
    )  # fmt: skip
    runs = [
        RunSummary(RunDirectory(tmp_path / "catch-2"), "failed", record.started_at, record),
        RunSummary(RunDirectory(tmp_path / "odd"), "unknown", "2026-12-01T09:00:00.000+00:00", None, "no record"),
    ]
    text = render(run_table(runs))
    expected = ["failed", "7", "0.500", "catch", "smoke", "64", "2", "3m05s", "2026-12-01 10:00:00"]
    assert cells(text, "catch-2") == expected
    assert cells(text, "odd")[0] == "unknown"
    assert run_causes(runs) == ["catch-2: [red] died", "odd: no record"]
    for width in (40, 80):
        console = Console(width=width, file=io.StringIO(), color_system=None)
        console.print(run_table(runs, narrow=True))
        narrow = console.file.getvalue()  # type: ignore[attr-defined]
        assert "catch-2" in narrow and "failed" in narrow and "unknown" in narrow
    assert "No runs." in render(run_table([]))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0s"), (59.4, "59s"), (59.6, "1m00s"), (185, "3m05s"), (7385, "2h03m"), (90000, "25h00m")],
)
def test_durations(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
