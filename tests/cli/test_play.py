"""`trl-env play` as a person starts it: at a terminal, in a pipe, and with nothing left behind."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from trl_envs.cli.app import app
from trl_envs.errors import ConfigError

ROOT = Path(__file__).parent.parent.parent
COMMAND = [sys.executable, "-m", "trl_envs", "play", "recipe=catch", "--seed", "3"]
ENV = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color"}


def test_of_several_environments_one_is_chosen() -> None:
    for arguments, said in (
        (["recipe=multi_env"], "2 environments"),
        (["recipe=catch", "--env", "cath"], "did you mean"),
    ):
        result = CliRunner().invoke(app, ["play", *arguments])
        assert isinstance(result.exception, ConfigError)
        assert said in str(result.exception)


def children_of(pid: int) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "environ").read_bytes()
        except OSError:
            continue
        if f"TRL_ENV_TEST_MARK={pid}".encode() in line:
            found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found


@pytest.mark.slow
def test_a_pipe_gets_a_won_game_in_plain_text(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "--policy", "solver"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=180,
        env=ENV,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout and "game over: won" in done.stdout
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="reads /proc")
def test_ctrl_c_at_a_terminal_leaves_nothing_and_the_terminal_as_it_was(tmp_path: Path) -> None:
    import termios

    master, slave = pty.openpty()
    before = termios.tcgetattr(slave)
    mark = str(os.getpid())
    process = subprocess.Popen(
        COMMAND,
        cwd=tmp_path,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**ENV, "TRL_ENV_TEST_MARK": mark},
        start_new_session=True,
        preexec_fn=lambda: os.close(os.open(os.ttyname(0), os.O_RDWR)),
    )
    seen, deadline_s = b"", time.monotonic() + 180
    try:
        while b"weighted sum" not in seen and time.monotonic() < deadline_s:
            seen += os.read(master, 4096)
        os.write(master, b"move left\n")
        while seen.count(b"weighted sum") < 2 and time.monotonic() < deadline_s:
            seen += os.read(master, 4096)
        # The terminal makes SIGINT for its foreground group of this.
        os.write(master, b"\x03")
        assert process.wait(timeout=60) == 128 + signal.SIGINT
        assert termios.tcgetattr(slave) == before
        assert children_of(int(mark)) == []
    finally:
        process.kill()
        os.close(master)
        os.close(slave)
    assert b"\x1b[" in seen and b"Traceback" not in seen
