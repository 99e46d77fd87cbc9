"""What a process leaves outside its own group is removed by the command that its spec names."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.runtime.programs import SLEEP, python, wait_until
from tests.runtime.test_signals import ROOT
from trl_envs.runtime import guard
from trl_envs.runtime.supervisor import Supervisor


def leaving(folder: Path, then: str = SLEEP) -> tuple[Path, tuple[str, ...], str]:
    """A file that a process makes, the command that removes it, and the process's code."""
    left = folder / "left behind"
    return left, ("rm", str(left)), f"from pathlib import Path; Path({str(left)!r}).touch(); {then}"


@pytest.mark.parametrize("then", [SLEEP, "raise SystemExit(3)", "import os; os.kill(os.getpid(), 9)"])
def test_the_command_runs_once_the_process_is_gone(then: str, tmp_path: Path) -> None:
    left, command, code = leaving(tmp_path, then)
    with Supervisor(tmp_path / "logs") as supervisor:
        supervisor.start(replace(python("main", code), cleanup=command))
        wait_until(left.exists)
    assert not left.exists()


def test_a_command_that_fails_is_named_for_the_person_to_run(tmp_path: Path) -> None:
    told = r"main may have left something .*No such file.*to remove it: rm"
    with pytest.warns(RuntimeWarning, match=told), Supervisor(tmp_path) as supervisor:
        supervisor.start(replace(python("main", SLEEP), cleanup=("rm", str(tmp_path / "nothing"))))


def test_the_guard_runs_it_when_the_launcher_is_killed(tmp_path: Path) -> None:
    left, command, code = leaving(tmp_path)
    launcher = f"""
import time
from dataclasses import replace
from pathlib import Path
from tests.runtime.programs import python
from trl_envs.runtime.supervisor import Supervisor
with Supervisor(Path({str(tmp_path / "logs")!r})) as supervisor:
    supervisor.start(replace(python("main", {code!r}), cleanup={command!r}))
    time.sleep(30)
"""
    process = subprocess.Popen([sys.executable, "-c", launcher], cwd=ROOT)
    wait_until(left.exists)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    wait_until(lambda: not left.exists(), 5)


def test_a_command_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "CLEANUP_TIMEOUT_S", 0.2)
    assert "timed out" in guard.clean_up(["sleep", "30"])
    assert "No such file" in guard.clean_up(["/no/such/program"])
    assert guard.clean_up(["true"]) == ""
