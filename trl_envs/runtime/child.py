"""One child process: how it is started, and what can be said of it."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

from trl_envs.errors import StartupError
from trl_envs.plan.spec import ProcessSpec
from trl_envs.runtime.guard import end_groups
from trl_envs.runtime.logs import read_log_tail
from trl_envs.runtime.watchdog import Watchdog

GATE_FILE = Path(__file__).with_name("gate.py")
# The gate is an empty Python interpreter; on a cold network drive even that takes seconds.
GATE_TIMEOUT_S = 60.0


class Child:
    """A started process; its process group has the id `pid`.

    Attributes:
        name: Name in the launch.
        pid: Process id, process group id and session id.
        spec: What was asked for.
        log: The file that takes its output.
    """

    def __init__(self, spec: ProcessSpec, process: subprocess.Popen[bytes], log: Path, log_start_byte: int) -> None:
        self.name = spec.name
        self.pid = process.pid
        self.spec = spec
        self.log = log
        self._process = process
        self._log_start_byte = log_start_byte

    def poll(self) -> int | None:
        """Exit code, None while it runs, or minus the signal that killed it."""
        return self._process.poll()

    def wait(self) -> int:
        """Waits for a process that is known to end; returns its exit code."""
        return self._process.wait()

    def describe_exit(self) -> str:
        """How it ended: `exit code 3`, `killed by SIGKILL`, or `still running`."""
        code = self.poll()
        if code is None:
            return "still running"
        if code >= 0:
            return f"exit code {code}"
        try:
            return f"killed by {signal.Signals(-code).name}"
        except ValueError:  # real-time signals have numbers and no names
            return f"killed by signal {-code}"

    def log_tail(self, lines: int = 15) -> list[str]:
        """The last lines that this process wrote; nothing of an earlier one with the same log."""
        return read_log_tail(self.log, lines, self._log_start_byte)

    def describe_log(self, lines: int = 15) -> str:
        """The end of the log as a block of text that names the file."""
        tail = self.log_tail(lines)
        if not tail:
            return f"it wrote nothing to {self.log}"
        return "\n".join([f"end of {self.log}:", *(f"  {line}" for line in tail)])


def start_child(spec: ProcessSpec, log_dir: Path, watchdog: Watchdog) -> Child:
    """Starts a process in a session of its own, its output appended to `log_dir/<name>.log`.

    The log is the child's own file descriptor: a child whose launcher is gone never blocks on a full pipe. One at the
    terminal has the launcher's instead.

    Args:
        spec: What to start.
        log_dir: Created if missing.
        watchdog: Told of the process group before the program begins.

    Raises:
        StartupError: The program doesn't exist, isn't executable, or can't be run by the system.
    """
    variables = {**os.environ, **spec.variables}
    file = _find_program(spec, variables.get("PATH"))
    log_dir.mkdir(parents=True, exist_ok=True)
    log_path = log_dir / f"{spec.name}.log"
    ours, theirs = socket.socketpair()
    with ours, log_path.open("ab") as log:
        # Before the child moves the position, which it shares with this descriptor.
        log_start_byte = log.tell()
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(GATE_FILE), str(theirs.fileno()), file, *spec.argv],
                # In its session it isn't the terminal's foreground group, which is the launcher's: Ctrl-C comes there.
                stdin=None if spec.at_terminal else subprocess.DEVNULL,
                stdout=None if spec.at_terminal else log,
                stderr=None if spec.at_terminal else subprocess.STDOUT,
                env=variables,
                start_new_session=True,
                pass_fds=[theirs.fileno()],
            )
        try:
            watchdog.add(process.pid, spec.cleanup)
            _open_gate(spec, ours)
        except BaseException:
            end_groups([process.pid], grace_s=0.0)
            process.wait()
            watchdog.remove(process.pid)
            raise
    return Child(spec, process, log_path, log_start_byte)


def _open_gate(spec: ProcessSpec, gate: socket.socket) -> None:
    gate.settimeout(GATE_TIMEOUT_S)
    try:
        gate.sendall(b"1")
        # End of file without a word is a successful exec.
        answer = gate.recv(16)
    except OSError as error:
        raise StartupError(
            f"{spec.name}: no process could be started with {sys.executable}: {error}",
            f"try it by hand: {sys.executable} -I -S -c pass",
        ) from error
    if answer:
        number = int(answer)
        reason = f"{os.strerror(number)} ({errno.errorcode.get(number, number)})"
        raise StartupError(f"{spec.name}: {spec.argv[0]} can't be run: {reason}", f"try it by hand: {spec.command()}")


def _find_program(spec: ProcessSpec, path: str | None) -> str:
    program = spec.argv[0]
    file = shutil.which(program, path=path)
    if file is None and Path(program).exists() and os.sep in program:
        raise StartupError(f"{spec.name}: {program} isn't an executable file", f"make it one: chmod +x {program}")
    if file is None:
        where = "" if os.sep in program else " on PATH"
        raise StartupError(
            f"{spec.name}: the program {program} doesn't exist{where}",
            f"install it, or put its folder on PATH; the command was: {spec.command()}",
        )
    return file
