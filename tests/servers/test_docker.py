"""Servers in containers, with a stand-in for the program docker: whatever happens, no container is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.runtime.programs import is_running, wait_until
from tests.servers.engine import ROOT, Engine
from trl_envs.machine import docker_problem


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = Engine(tmp_path)
    yield engine
    engine.shut_down()


@contextmanager
def launched(
    engine: Engine, folder: Path, image: str, timeout_s: float = 30.0, **variables: str
) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.servers.docker_launcher", image, str(timeout_s), str(folder)]
    process = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **engine.variables, **variables}, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process.stdout:
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def lines_until_ready(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line.strip())
        if line.startswith("ready"):
            return lines
    raise AssertionError(lines)


def test_a_container_serves_and_is_removed_at_the_end(engine: Engine, tmp_path: Path) -> None:
    with launched(engine, tmp_path, "remote") as process:
        lines = lines_until_ready(process)
        assert lines[0] == "catch: pulling remote, which isn't on this machine yet"
        ((_, *asked),) = engine.calls("run")
        assert "MAX_CONCURRENT_ENVS=10" in asked and "OPENSPIEL_GAME=catch" in asked
        assert asked[asked.index("-p") + 1] == f"127.0.0.1:{lines[-1].rpartition(':')[2]}:8000"
        (name,) = engine.containers()
        assert name == asked[asked.index("--name") + 1]
        # The provider lets a second pass before anybody can read the container's output.
        wait_until(lambda: "container up" in (tmp_path / "logs" / "server-catch.log").read_text())
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        engine.assert_nothing_is_left()
        assert engine.removed() == [name]


def test_sigkill_of_the_launcher_removes_the_container(engine: Engine, tmp_path: Path) -> None:
    # Removing takes longer than the guard leaves the process that could do it.
    with launched(engine, tmp_path, "server", FAKE_DOCKER_RM_SLOW_S="2.5") as process:
        lines_until_ready(process)
        process.kill()
        process.wait()
        seconds = wait_until(lambda: not engine.containers(), 10)
        print(f"removed {seconds:.2f} s after SIGKILL of the launcher")
    wait_until(lambda: not any(is_running(pid) for pid in engine.pids()))


def test_sigkill_of_the_process_that_follows_it_ends_the_run_and_removes_it(engine: Engine, tmp_path: Path) -> None:
    with launched(engine, tmp_path, "server") as process:
        lines_until_ready(process)
        (name,) = engine.containers()
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            words = entry.read_bytes().split(b"\0") if entry.exists() else []
            if b"trl_envs.servers.docker" in words and name.encode() in words:
                os.kill(int(entry.parent.name), signal.SIGKILL)
        output, _ = process.communicate(timeout=20)
        assert process.returncode == 4, output
        assert "server-catch ended while main needed it: killed by SIGKILL" in output
        engine.assert_nothing_is_left()
        assert engine.removed() == [name]


def test_a_container_that_dies_ends_the_run_with_its_last_words(engine: Engine, tmp_path: Path) -> None:
    with launched(engine, tmp_path, "server") as process:
        lines_until_ready(process)
        wait_until(lambda: "container up" in (tmp_path / "logs" / "server-catch.log").read_text())
        (pid,) = engine.pids()
        os.kill(pid, signal.SIGKILL)
        killed_at_s = time.monotonic()
        output, _ = process.communicate(timeout=20)
        assert time.monotonic() - killed_at_s < 10
        assert process.returncode == 4, output
        assert "server-catch ended while main needed it: exit code 137" in output
        assert "container up" in output and "ended with exit code 137 (killed; out of memory?)" in output
        engine.assert_nothing_is_left()


@pytest.mark.parametrize(
    ("image", "timeout_s", "words"),
    [
        ("deaf", 6, ["wasn't ready within 6 s", "raise server.ready_timeout_s", "loading for ever"]),
        ("crashing", 30, ["server-catch ended before it was ready: exit code 3", "no such game: chess"]),
        ("unstartable", 30, ["server-catch ended before it was ready: exit code 1", "port is already allocated"]),
        ("secret", 30, ["envs.catch.image=secret can't be pulled", "pull access denied", "docker pull secret"]),
    ],
)
def test_what_never_serves_is_named_and_removed(
    image: str, timeout_s: float, words: list[str], engine: Engine, tmp_path: Path
) -> None:
    with launched(engine, tmp_path, image, timeout_s) as process:
        output, _ = process.communicate(timeout=40)
    assert process.returncode == 3, output
    for word in words:
        assert word in output
    engine.assert_nothing_is_left()
    assert len(engine.removed()) == len(engine.calls("run"))


def test_a_container_that_is_made_after_its_client_was_told_to_end_is_removed_too(
    engine: Engine, tmp_path: Path
) -> None:
    with launched(engine, tmp_path, "server", FAKE_DOCKER_SLOW_S="0.4") as process:
        wait_until(engine.is_making, 30)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 143
    assert len(engine.removed()) == 1
    engine.assert_nothing_is_left()


def test_without_docker_nothing_starts(engine: Engine, tmp_path: Path) -> None:
    engine.break_down()
    with launched(engine, tmp_path, "server") as process:
        output, _ = process.communicate(timeout=20)
    assert process.returncode == 2
    assert "server=docker runs catch in a container" in output
    assert "Is the docker daemon running?" in output and "server=local" in output
    assert engine.calls("run") == []
    assert not (tmp_path / "logs").exists()


def test_a_missing_program_or_one_that_hangs_is_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert docker_problem() == "the program docker isn't on PATH"
    (tmp_path / "docker").write_text(f"#!{sys.executable}\nimport time\ntime.sleep(20)\n")
    (tmp_path / "docker").chmod(0o755)
    assert docker_problem(timeout_s=0.5) == "docker version gave no answer within 0.5 s"
