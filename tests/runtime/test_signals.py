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

from tests.runtime.programs import is_running, listens, python, read_pid, wait_until
from trl_envs.errors import Interrupted, StartupError
from trl_envs.runtime import guard
from trl_envs.runtime.supervisor import Supervisor
from trl_envs.runtime.watchdog import Watchdog

ROOT = Path(__file__).parents[2]


@contextmanager
def launcher(where: str, port: int, grace_s: float, folder: Path) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A running launcher with the ids of its whole family: server, main, grandchildren, guard."""
    (folder / "far").mkdir()
    command = [sys.executable, "-m", "tests.runtime.launcher", where, str(port), str(grace_s), str(folder)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stderr is not None
    with process.stdout, process.stderr:
        try:
            assert process.stdout.readline() == "up\n", process.stderr.read()
            names = ["server", "guard", "child", "grandchild", "far/child", "far/grandchild"]
            pids = [read_pid(folder / name) for name in names]
            wait_until(lambda: listens(port))
            assert all(is_running(pid) for pid in pids)
            yield process, pids
        finally:
            process.kill()
            process.wait()


def assert_nothing_is_left(pids: list[int], port: int) -> None:
    assert [pid for pid in pids if is_running(pid)] == []
    assert not listens(port)


@pytest.mark.parametrize(
    ("where", "signum"),
    [
        ("wait", signal.SIGINT),
        ("wait", signal.SIGTERM),
        ("watch", signal.SIGINT),
        ("watch", signal.SIGTERM),
        ("watch", signal.SIGHUP),
    ],
)
def test_a_signal_stops_everything(where: str, signum: signal.Signals, tmp_path: Path, port: int) -> None:
    with launcher(where, port, 0.2, tmp_path) as (process, pids):
        process.send_signal(signum)
        output, errors = process.communicate(timeout=5)
        assert process.returncode == 128 + signum, errors
        assert output == "Interrupted\n"
        assert_nothing_is_left(pids, port)


def test_a_second_ctrl_c_kills_at_once(tmp_path: Path, port: int) -> None:
    with launcher("watch", port, 60.0, tmp_path) as (process, pids):
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        # The stubborn grandchildren ignore TERM, so the launcher is within its grace.
        assert process.poll() is None
        started = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=10)
        assert time.monotonic() - started < 3
        assert process.returncode == 130
        assert_nothing_is_left(pids, port)


def test_sigkill_of_the_launcher_takes_all_along(tmp_path: Path, port: int) -> None:
    with launcher("watch", port, 60.0, tmp_path) as (process, pids):
        process.kill()
        seconds = wait_until(lambda: not any(is_running(pid) for pid in pids) and not listens(port), 5)
        print(f"all dead {seconds:.2f} s after SIGKILL of the launcher")


@pytest.mark.parametrize("moment", ["before", "after"])
def test_sigkill_while_starting_leaves_nothing(moment: str, tmp_path: Path) -> None:
    """The launcher dies just before, or just after, it tells the guard of a child: the program never begins."""
    code = f"""
import os, signal, sys
from pathlib import Path
from tests.runtime.programs import python
from trl_envs.runtime.supervisor import Supervisor
from trl_envs.runtime.watchdog import Watchdog
add = Watchdog.add
def die(watchdog, group, cleanup):
    if {moment!r} == "after":
        add(watchdog, group)
    print(watchdog.pid, group, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
Watchdog.add = die
Supervisor(Path({str(tmp_path)!r})).start(python("main", "import time; print('begun', flush=True); time.sleep(30)"))
"""
    process = subprocess.run([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.returncode == -signal.SIGKILL
    pids = [int(pid) for pid in process.stdout.split()]
    wait_until(lambda: not any(is_running(pid) for pid in pids), 5)
    assert (tmp_path / "main.log").read_text() == ""


def test_handlers_are_restored(tmp_path: Path) -> None:
    before = [signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    with Supervisor(tmp_path):
        assert signal.getsignal(signal.SIGINT) is not before[0]
    assert [signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before


def test_an_ignored_sighup_stays_ignored(tmp_path: Path) -> None:
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Supervisor(tmp_path):
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, previous)


def test_a_signal_between_the_waits_is_not_lost(tmp_path: Path) -> None:
    with pytest.raises(Interrupted) as caught, Supervisor(tmp_path) as supervisor:
        os.kill(os.getpid(), signal.SIGTERM)
    assert caught.value.exit_code == 143
    with pytest.raises(Interrupted), Supervisor(tmp_path) as supervisor:
        os.kill(os.getpid(), signal.SIGINT)
        supervisor.start(python("main", "pass"))
    assert not (tmp_path / "main.log").exists()


def test_the_guard_ignores_signals_and_ends_only_what_is_still_named(tmp_path: Path) -> None:
    named, removed = [subprocess.Popen(["sleep", "30"], start_new_session=True) for _ in range(2)]
    watchdog = Watchdog()
    for signum in guard.IGNORED_SIGNALS:
        os.kill(watchdog.pid, signum)
    watchdog.add(named.pid)
    watchdog.add(removed.pid)
    watchdog.remove(removed.pid)
    time.sleep(0.1)
    assert is_running(watchdog.pid) and is_running(named.pid)
    watchdog.close()
    assert not is_running(watchdog.pid)
    assert named.wait(5) == -signal.SIGTERM
    assert removed.poll() is None
    removed.kill()
    removed.wait()


def test_nothing_is_started_without_a_guard(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match=r"guard process .* is gone"), Supervisor(tmp_path) as supervisor:
        supervisor.start(python("first", "import time; time.sleep(30)"))
        assert supervisor._watchdog is not None
        os.kill(supervisor._watchdog.pid, signal.SIGKILL)
        wait_until(lambda: not is_running(supervisor._watchdog.pid))
        supervisor.start(python("second", "print('begun')"))
    assert (tmp_path / "second.log").read_text() == ""


def test_the_process_table_is_the_same_from_ps() -> None:
    """What macOS uses, compared with what Linux uses."""
    if not Path("/proc/self/stat").exists():
        pytest.skip("needs /proc")
    try:
        by_ps = {entry.pid: entry for entry in guard._table_from_ps()}
    except FileNotFoundError:
        pytest.skip("needs the program ps")
    mine = next(entry for entry in guard._table_from_proc() if entry.pid == os.getpid())
    assert by_ps[os.getpid()] == mine
