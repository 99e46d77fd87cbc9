"""Short programs to supervise, and what the tests ask about processes."""

from __future__ import annotations

import os
import socket
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

from trl_envs.plan.spec import ProcessSpec, ReadySpec

# Ends by itself after a while, so that a failing test leaves nothing for long.
SLEEP = "import time; time.sleep(30)"
IGNORE_TERM = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ignoring', flush=True); " + SLEEP
)


def python(name: str, code: str, **fields: object) -> ProcessSpec:
    """A process that runs a few lines of Python."""
    return ProcessSpec(name, (sys.executable, "-I", "-S", "-c", textwrap.dedent(code)), **fields)  # type: ignore[arg-type]


def server(name: str, port: int, status: int = 200, delay_s: float = 0.0, timeout_s: float = 10.0) -> ProcessSpec:
    """A process that answers every request with one status."""
    code = f"""
        import socket, time
        time.sleep({delay_s})
        server = socket.socket()
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", {port}))
        server.listen()
        print("listening", flush=True)
        while True:
            connection, _ = server.accept()
            connection.recv(4096)
            connection.sendall(b"HTTP/1.1 {status} X\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n")
            connection.close()
    """
    return python(name, code, port=port, ready=ReadySpec(f"http://127.0.0.1:{port}/health", timeout_s))


def family(pid_dir: Path, *, own_session: bool = False, then: str = SLEEP) -> str:
    """Code that starts a grandchild which ignores TERM, notes both process ids in files, and goes on with `then`."""
    return f"""
import os, subprocess, sys, time
from pathlib import Path
grandchild = subprocess.Popen([sys.executable, "-I", "-S", "-c", {IGNORE_TERM!r}],
                              stdout=subprocess.PIPE, start_new_session={own_session})
grandchild.stdout.readline()
Path({str(pid_dir)!r}, "grandchild").write_text(str(grandchild.pid))
Path({str(pid_dir)!r}, "child").write_text(str(os.getpid()))
{then}
"""


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # Without an init process (in a container) an orphan stays a zombie.
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


def wait_until(condition: Callable[[], bool], timeout_s: float = 10.0) -> float:
    """Seconds until the condition held; fails if it doesn't in time."""
    started = time.monotonic()
    while not condition():
        assert time.monotonic() - started < timeout_s, "timed out"
        time.sleep(0.01)
    return time.monotonic() - started


def read_pid(path: Path) -> int:
    wait_until(lambda: path.exists() and path.read_text() != "")
    return int(path.read_text())


def listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
