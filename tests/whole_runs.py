"""Starting the command as a person does, and looking for what it left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from trl_envs.machine import port_is_free
from trl_envs.results.metrics import read_metrics

TIMEOUT_S = 240
# What else the command may import from.
ROOTS: tuple[str, ...] = ()


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "trl_envs", "train", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent.parent), *ROOTS])},
    )


def run(folder: Path, *arguments: str) -> tuple[int, str, str]:
    process = start(folder, *arguments)
    try:
        out, err = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
    return process.returncode, out, err


def the_run(folder: Path) -> Path:
    [path] = (folder / "runs").iterdir()
    return path


def processes_of(path: Path) -> list[str]:
    """Command lines of living processes that name a run directory or a port of its plan."""
    plan = json.loads((path / "plan.json").read_text())
    marks = [str(path), *(f"--port {urls[0].rpartition(':')[2]}" for urls in urls_of(plan))]
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # ended meanwhile
            continue
        found += [line for mark in marks if mark in line]
    return found


def urls_of(plan: dict[str, Any]) -> list[list[str]]:
    return [env["urls"] for env in plan["environments"].values()]


def assert_nothing_is_left(path: Path) -> None:
    assert processes_of(path) == []
    for urls in urls_of(json.loads((path / "plan.json").read_text())):
        assert port_is_free("127.0.0.1", int(urls[0].rpartition(":")[2]))


def wait_for_training(process: subprocess.Popen[str], path: Path) -> None:
    """Until the first step has been logged."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while not (path / "metrics.jsonl").exists() or not read_metrics(path / "metrics.jsonl"):
        assert process.poll() is None and time.monotonic() < deadline_s
        time.sleep(0.2)


def signal_process(mark: bytes, signum: int) -> None:
    """Sends a signal to the processes whose command line holds the mark."""
    for entry in Path("/proc").glob("[0-9]*"):
        line = (entry / "cmdline").read_bytes() if (entry / "cmdline").exists() else b""
        if mark in line:
            os.kill(int(entry.name), signum)


MINE = """
defaults: [catch, _self_]
description: catch, with a bonus for standing still
envs:
  catch:
    environment: {_target_: my_env.MyCatch, greeting: Hello.}
    rewards:
      caught: {weight: 2.0}
      stillness: {_target_: my_env.stillness, weight: 0.5, bonus: 0.25}
"""
MY_ENV = """
from trl_envs.envs.catch import CatchEnv


class MyCatch(CatchEnv):
    def __init__(self, open_session, greeting):
        super().__init__(open_session)
        self.greeting = greeting

    def reset(self, **row):
        return f"{self.greeting}\\n{super().reset(**row)}"


def stillness(environments, bonus, **kwargs):
    return [bonus * sum(e.tool == "stay" for e in env.episode.events) for env in environments]
"""
