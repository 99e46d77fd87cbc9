"""launch=server with a stand-in for vLLM and one for the trainer: real processes, and everything that can go wrong."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.plan.launching import TWO, facts
from tests.runtime.programs import SLEEP, is_running, read_pid
from trl_envs.cli.display import TrainDisplay
from trl_envs.config.compose import compose
from trl_envs.errors import ProcessExited, StartupError, TrlEnvError
from trl_envs.machine import free_port, port_is_free
from trl_envs.plan.build import build_plan
from trl_envs.plan.spec import ProcessSpec
from trl_envs.results.rundir import RunDirectory
from trl_envs.runtime.supervisor import Supervisor
from trl_envs.servers.health import Heartbeat
from trl_envs.stage import Stage, build_watch

FAKE = Path(__file__).with_name("fake_vllm.py")
ROOT = FAKE.parent.parent.parent
TRAINED = """
import sys, pathlib
from trl_envs.results.outcome import Outcome, write_outcome
from trl_envs.results.rundir import RunDirectory
write_outcome(RunDirectory(pathlib.Path(sys.argv[1])), Outcome(global_step=3))
"""
# The moment at which the server is to die or stall, and then what TRL does: wait for ever.
WAITING = f"import os, pathlib; pathlib.Path(os.environ['FAKE_VLLM_PIDS'], 'now').touch(); {SLEEP}"
FAILING = "raise SystemExit(9)"


@pytest.fixture
def pids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the stand-in notes its processes."""
    monkeypatch.setenv("FAKE_VLLM_PIDS", str(tmp_path / "pids"))
    return tmp_path / "pids"


@contextmanager
def stage(folder: Path, trainer: str, *overrides: str) -> Iterator[Stage]:
    """A run at the point where its servers stand and the probe is content; `python -c TRAINER RUN_DIR` trains."""
    program = folder / "vllm"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {FAKE} "$@"\n')
    program.chmod(0o755)
    mine = ("recipe=catch", "launch=server", f"launch.vllm_executable={program}", *overrides)
    composed = compose(["launch.heartbeat_timeout_s=1", "launch.ready_timeout_s=30", *mine])
    run = RunDirectory.create(folder, "one")
    plan = build_plan(composed.config, facts(gpus=TWO, free_port=free_port), run.path, [])
    spec = ProcessSpec("trainer", (sys.executable, "-c", trainer, str(run.path)), {"PYTHONPATH": str(ROOT)})
    display = TrainDisplay(Console(file=io.StringIO()))
    with Supervisor(run.logs_dir, stop_grace_s=0.5) as supervisor, Heartbeat({}, interval_s=0.1) as beat:
        yield Stage(run, replace(plan, trainer=spec), composed.config, display, supervisor, beat)


def carry_out(one: Stage) -> int:
    with one.generating():
        return one.train(build_watch(one.run, one.config, lambda sign: None))


def assert_nothing_is_left(pids: Path, one: Stage) -> None:
    for file in ("server", "grandchild"):
        assert not (pids / file).exists() or not is_running(read_pid(pids / file))
    assert one.plan.engine is not None
    assert port_is_free("127.0.0.1", one.plan.engine.process.port or 0)


SOON = "launch.ready_timeout_s=1.5"
# how the server behaves, the trainer, overrides -> error, words, and the seconds within which the run must be over
TROUBLE: list[tuple[str, str, tuple[str, ...], type[TrlEnvError], str, float]] = [
    ("never", WAITING, (SOON,), StartupError, r"(?s)vllm wasn't ready within 1.5 s.*loading Qwen", 10),
    ("503", WAITING, (SOON,), StartupError, r"it answers 503", 10),
    ("other", WAITING, (), StartupError, r"it is no vLLM server: it has no page /v1/models", 20),
    ("old", WAITING, (), StartupError, r"(?s)no page /get_world_size: it is another kind of server.*loading", 20),
    ("model", WAITING, (), StartupError, r"it serves another/model, and the run trains Qwen/Qwen2.5-0.5B", 20),
    ("engineless", WAITING, (), StartupError, r"no weight-transfer engine", 20),
    ("world", WAITING, (), StartupError, r"generates on 5 GPU\(s\), and 1 were planned", 20),
    ("dies", WAITING, (), ProcessExited, r"(?s)vllm ended while trainer needed it: exit code 7.*engine is dead", 20),
    ("stalls", WAITING, (), ProcessExited, r"the vLLM server hangs: .* hasn't worked for", 20),
    ("stuck", WAITING, (), ProcessExited, r"hangs: .* hasn't worked for .*\(4 requests wait in it, and no token", 20),
    ("grandchild", WAITING, (), ProcessExited, r"vllm ended while trainer needed it: exit code 7", 20),
    ("good", FAILING, (), ProcessExited, r"the trainer ended before the run did: exit code 9", 20),
    ("stubborn", FAILING, (), ProcessExited, r"the trainer ended before the run did: exit code 9", 20),
]


@pytest.mark.parametrize(
    ("how", "trainer", "overrides", "kind", "words", "within_s"), TROUBLE, ids=lambda v: str(v)[:12]
)
def test_trouble_ends_the_run_in_time_with_its_cause_and_leaves_nothing(
    tmp_path: Path,
    pids: Path,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
    trainer: str,
    overrides: tuple[str, ...],
    kind: type[TrlEnvError],
    words: str,
    within_s: float,
) -> None:
    monkeypatch.setenv("FAKE_VLLM", how)
    started = time.monotonic()
    with pytest.raises(kind, match=words) as caught, stage(tmp_path, trainer, *overrides) as one:
        carry_out(one)
    assert time.monotonic() - started < within_s
    assert caught.value.exit_code == (3 if kind is StartupError else 4)
    assert (pids / "grandchild").exists() is (how == "grandchild")
    assert_nothing_is_left(pids, one)


@pytest.mark.parametrize("how", ["good", "stubborn"])
def test_the_server_is_stopped_when_training_is_over(
    tmp_path: Path, pids: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setenv("FAKE_VLLM", how)
    with stage(tmp_path, TRAINED) as one:
        assert carry_out(one) == 3
        # What plays afterwards needs it no more, and doesn't hear of its end.
        assert_nothing_is_left(pids, one)
        one.beat.check()


def test_a_hang_says_which_key_makes_the_run_wait_longer(
    tmp_path: Path, pids: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_VLLM", "stalls")
    with pytest.raises(ProcessExited) as caught, stage(tmp_path, WAITING) as one:
        carry_out(one)
    assert "launch.heartbeat_timeout_s" in caught.value.hint
    assert "loading Qwen" in caught.value.message


def test_a_run_without_a_server_starts_none(tmp_path: Path) -> None:
    with stage(tmp_path, TRAINED) as one:
        alone: Any = replace(one, plan=replace(one.plan, engine=None))
        assert carry_out(alone) == 3
    assert not (one.run.logs_dir / "vllm.log").exists()
