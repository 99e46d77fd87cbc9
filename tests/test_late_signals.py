"""A signal that comes when the trainer has had its last word: what the record says of the run."""

from __future__ import annotations

import io
import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from trl_envs import launch
from trl_envs.cli.display import TrainDisplay
from trl_envs.config.compose import compose
from trl_envs.errors import ConfigError, Interrupted, TrlEnvError
from trl_envs.preflight.findings import Report
from trl_envs.results.outcome import Outcome, write_outcome
from trl_envs.results.rundir import RunDirectory


class Stage:
    """Of a run whose trainer has ended as `outcome` says, or not yet, when SIGTERM comes."""

    def __init__(self, run: RunDirectory, outcome: Outcome | None) -> None:
        self._run, self._outcome = run, outcome

    def probe(self, *, all_sessions: bool) -> Report:
        return Report()

    def generating(self) -> Any:
        return nullcontext()

    def evaluate(self, name: str) -> None:
        pass

    def train(self, watch: Any) -> int:
        if self._outcome is not None:
            write_outcome(self._run, self._outcome)
            if self._outcome.global_step is not None:
                self._run.model_dir.mkdir()
        raise Interrupted(signal.SIGTERM)


def interrupted(folder: Path, monkeypatch: pytest.MonkeyPatch, outcome: Outcome | None) -> tuple[TrlEnvError, Any]:
    @contextmanager
    def standing(run: RunDirectory, *_: Any, **__: Any) -> Iterator[Stage]:
        yield Stage(run, outcome)

    monkeypatch.setattr(launch, "standing", standing)
    composed = compose(["recipe=catch", "preset=smoke", f"output_dir={folder}", "run_name=one"])
    with pytest.raises(TrlEnvError) as caught:
        launch.train(composed, TrainDisplay(Console(file=io.StringIO())))
    return caught.value, json.loads((folder / "one" / "record.json").read_text())


def test_a_finished_model_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error, record = interrupted(tmp_path, monkeypatch, Outcome(global_step=2))
    assert (error.exit_code, record["status"], record["global_step"]) == (143, "interrupted", 2)
    assert record["model_dir"] == str(tmp_path / "one" / "model")
    assert record["message"] == f"stopped by SIGTERM when training was over; the model is {tmp_path / 'one' / 'model'}"


def test_the_trainers_own_error_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error, record = interrupted(tmp_path, monkeypatch, Outcome.of_error(ConfigError("no such tool", "mend it")))
    assert isinstance(error, ConfigError) and error.hint == "mend it"
    assert (record["status"], record["exit_code"], record["message"]) == ("failed", 2, "no such tool")


def test_a_run_that_was_not_over_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error, record = interrupted(tmp_path, monkeypatch, None)
    assert (error.exit_code, record["status"], record["model_dir"]) == (143, "interrupted", None)
    assert record["message"] == "stopped by SIGTERM"
