"""A whole run with evaluations, as a person starts it."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from trl_envs.cli.display import TrainDisplay
from trl_envs.config.compose import compose
from trl_envs.errors import ProcessExited, TrainingFailed, TrlEnvError
from trl_envs.launch import machine_facts
from trl_envs.plan.build import build_plan
from trl_envs.plan.spec import ProcessSpec
from trl_envs.results.episodes import read_episodes
from trl_envs.results.rundir import RunDirectory
from trl_envs.runtime.supervisor import Supervisor
from trl_envs.servers.health import Heartbeat
from trl_envs.stage import Stage

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.slow
def test_a_run_plays_before_and_after_and_says_what_changed(tmp_path: Path) -> None:
    arguments = ["recipe=catch", "preset=smoke", "eval.episodes=12", "run_name=one", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "trl_envs", "train", *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    assert "eval     before training: 12/12 episodes" in done.stderr
    assert "eval     after training: 12/12 episodes" in done.stderr
    assert "95 % interval" in done.stderr
    run, record = tmp_path / "runs" / "one", json.loads(done.stdout)
    assert record == json.loads((run / "record.json").read_text())
    evaluation = record["evaluation"]
    assert evaluation["before"]["model"] == "tiny"
    assert evaluation["after"]["model"] == str(run / "model")
    assert set(evaluation["differences"]) == {"catch.caught", "catch won"}
    seeds = [[one["seed"] for one in read_episodes(run / "eval" / f"{name}.jsonl")] for name in ("before", "after")]
    assert seeds[0] == seeds[1] and len(seeds[0]) == 12
    assert not set(seeds[0]) & {one["seed"] for one in read_episodes(run / "episodes.jsonl")}


SILENT = "raise SystemExit(3)"
SPEAKING = """
import sys, pathlib
from trl_envs.errors import TrainingFailed
from trl_envs.results.evaluation import write_evaluation
from trl_envs.results.outcome import Outcome
from trl_envs.results.rundir import RunDirectory
outcome = Outcome.of_error(TrainingFailed("the cause", "the cure"))
write_evaluation(RunDirectory(pathlib.Path(sys.argv[1])), outcome, "before")
raise SystemExit(1)
"""


@contextmanager
def stage(folder: Path, code: str) -> Iterator[Stage]:
    """A run at the point where `python -c CODE RUN_DIR` plays before training."""
    composed = compose(["recipe=catch", "preset=smoke", "eval.episodes=4", "launch=single"])
    run = RunDirectory.create(folder, "one")
    plan = build_plan(composed.config, machine_facts(), run.path, composed.import_folders)
    child = ProcessSpec("eval-before", (sys.executable, "-c", code, str(run.path)), {"PYTHONPATH": str(ROOT)})
    plan = replace(plan, evaluations={"before": child})
    display = TrainDisplay(Console(file=io.StringIO()))
    with Supervisor(run.logs_dir) as supervisor, Heartbeat({}) as beat:
        yield Stage(run, plan, composed.config, display, supervisor, beat)


@pytest.mark.parametrize(
    ("code", "kind", "said"),
    [(SPEAKING, TrainingFailed, "the cause"), (SILENT, ProcessExited, "the evaluation before training ended before")],
)
def test_an_evaluation_that_fails_ends_the_run_with_its_cause(
    tmp_path: Path, code: str, kind: type[TrlEnvError], said: str
) -> None:
    with stage(tmp_path, code) as one, pytest.raises(kind, match=said):
        one.evaluate("before")


def test_a_resumed_run_does_not_play_again_with_the_model_it_began_with(tmp_path: Path) -> None:
    with stage(tmp_path, SILENT) as one:
        again = replace(one, plan=one.plan.resuming(2, str(tmp_path / "checkpoint-2")))
        again.evaluate("before")
        with pytest.raises(ProcessExited, match="the evaluation before training ended"):
            one.evaluate("before")
