"""What a run shows of its evaluations: a line now and then, and a table and a curve at the end."""

from __future__ import annotations

import io
import json
from pathlib import Path

from rich.console import Console

from tests.results.test_comparison import evaluation
from trl_envs.cli.evaluation import EvaluationProgress, show_comparison, show_curves
from trl_envs.results.comparison import describe_evaluations
from trl_envs.results.evaluation import write_evaluation
from trl_envs.results.jsonlines import JsonLinesWriter
from trl_envs.results.metrics import MetricsWriter
from trl_envs.results.rundir import RunDirectory


def test_progress_says_now_and_then_how_far_it_is(tmp_path: Path) -> None:
    said: list[str] = []
    progress = EvaluationProgress(said.append, tmp_path / "before.jsonl", "before training", 50)
    progress.tick()
    with JsonLinesWriter(tmp_path / "before.jsonl") as writer:
        for number in range(50):
            writer.write({"episode": number})
            progress.tick()
    progress.tick()
    assert said[0] == "eval     before training: starting, 50 episodes"
    assert said[1:] == [f"eval     before training: {count}/50 episodes" for count in (10, 20, 30, 40, 50)]


def shown(run: RunDirectory) -> str:
    console = Console(file=io.StringIO(), width=100, color_system=None)
    show_curves(console, run)
    show_comparison(console, run)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_a_run_without_steps_and_evaluations_shows_neither(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, "run")
    assert shown(run) == ""
    assert describe_evaluations(run) == {}


def test_a_run_shows_curve_picture_and_table_and_describes_them(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, "run")
    writer = MetricsWriter(run.metrics_file)
    for step in range(1, 9):
        writer.write(step, {"reward": step / 10, "rewards/catch.caught/mean": step / 10})
    writer.close()
    write_evaluation(run, evaluation("before", 100, [1.0, 2.0]), "before")
    assert set(describe_evaluations(run)) == {"before"}
    write_evaluation(run, evaluation("after", 150, [1.0, 2.0]), "after")
    text = shown(run)
    assert "catch.caught: " in text and "+0.250" in text
    assert f"curve    {run.curve_file}" in text
    described = json.loads(json.dumps(describe_evaluations(run)))
    assert described["differences"]["catch.caught"]["value"] == 0.25
    assert described["after"]["environments"]["catch"]["terms"]["caught"]["n"] == 200
