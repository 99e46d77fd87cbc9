"""Ends process groups; run as a program, the guard that ends a launcher's children when the launcher is killed.

Run as `python -I -S guard.py` with a pipe as standard input, of which the launcher holds the only write end. Lines
`add N [COMMAND]` and `remove N` name process groups; COMMAND, a JSON list, removes what a group leaves elsewhere. When
the launcher dies, SIGKILL included, the kernel closes the pipe: the guard then ends every group that is still named,
runs the commands, and exits. This works the same on Linux and macOS, unlike
PR_SET_PDEATHSIG, which also ends no grandchild. Standard library only, and no import from this package, because the
guard starts isolated (no site-packages: about 10 ms, and nothing a user's PYTHONPATH could break).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

# Ctrl-C and `kill` are meant for the launcher, which then ends its children itself.
IGNORED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
GUARD_GRACE_S = 1.5
POLL_S = 0.05
# A killed process is gone within milliseconds unless it hangs in the kernel (a dead network drive).
KILL_WAIT_S = 5.0
# A container engine on a busy machine takes some seconds to remove a container.
CLEANUP_TIMEOUT_S = 20.0


class ProcessEntry(NamedTuple):
    """One line of the process table; `pgid` is its process group."""

    pid: int
    ppid: int
    pgid: int
    zombie: bool


def running_groups(groups: Iterable[int]) -> set[int]:
    """The process groups below `groups` that have a running member.

    These are the groups themselves and those that their descendants made: torch's elastic agent, for one, starts each
    worker in a session of its own. Zombies don't count: they hold nothing, and in a container without an init process
    they stay for ever.
    """
    roots = set(groups)
    table = _process_table()
    below = {entry.pid for entry in table if entry.pgid in roots}
    while more := {entry.pid for entry in table if entry.ppid in below} - below:
        below |= more
    found = {entry.pgid for entry in table if entry.pid in below and not entry.zombie}
    # Group 0 would mean the caller's own group to killpg.
    return found - {0, 1, os.getpgrp()}


def end_groups(groups: Iterable[int], grace_s: float, hurry: Callable[[], bool] = lambda: False) -> set[int]:
    """Ends whole process groups: TERM, a wait, KILL.

    Args:
        groups: Process group ids.
        grace_s: Seconds between TERM and KILL for those that don't end by themselves.
        hurry: Asked while waiting; True skips the rest of the grace.

    Returns:
        Groups that even KILL didn't end within `KILL_WAIT_S`; normally empty.
    """
    told: set[int] = set()
    deadline = time.monotonic() + grace_s
    # A group found once is remembered: its parent may die first, and the link to it with the parent.
    while alive := running_groups(told | set(groups)):
        for group in alive - told:
            _signal_group(group, signal.SIGTERM)
            # A stopped (frozen) process would see TERM only after it continues.
            _signal_group(group, signal.SIGCONT)
        told |= alive
        if hurry() or time.monotonic() >= deadline:
            break
        time.sleep(POLL_S)
    deadline = time.monotonic() + KILL_WAIT_S
    while (alive := running_groups(told | set(groups))) and time.monotonic() < deadline:
        for group in alive:
            _signal_group(group, signal.SIGKILL)
        told |= alive
        time.sleep(POLL_S / 5)
    return alive


def clean_up(command: Sequence[str]) -> str:
    """Runs the command that removes what a process leaves outside its group.

    Returns:
        What went wrong; empty if it went well.
    """
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=CLEANUP_TIMEOUT_S,
            # Ctrl-C in a terminal goes to the launcher's whole group, and this must run all the same.
            start_new_session=True,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    said = done.stderr.strip().splitlines()
    return "" if done.returncode == 0 else f"exit code {done.returncode}{': ' + said[-1] if said else ''}"


def _signal_group(group: int, signum: int) -> None:
    # Gone since the table was read, or owned by another user: either way there is nothing to be done about it here.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signum)


def _process_table() -> list[ProcessEntry]:
    if Path("/proc/self/stat").exists():
        return _table_from_proc()
    return _table_from_ps()


def _table_from_proc() -> list[ProcessEntry]:
    entries = []
    for name in os.listdir("/proc"):  # noqa: PTH208 - several times faster than Path.iterdir on a busy machine
        if name.isdigit():
            # Processes end while the table is being read.
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                stat = Path(f"/proc/{name}/stat").read_bytes()
                # `pid (comm) state ppid pgrp ...`, proc(5); comm may itself contain spaces and parentheses.
                state, ppid, pgid = stat.rpartition(b")")[2].split()[:3]
                entries.append(ProcessEntry(int(name), int(ppid), int(pgid), state in (b"Z", b"X")))
    return entries


def _table_from_ps() -> list[ProcessEntry]:
    command = ["ps", "-A", "-o", "pid=,ppid=,pgid=,stat="]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    rows = [line.split() for line in lines]
    return [ProcessEntry(int(pid), int(ppid), int(pgid), stat.startswith("Z")) for pid, ppid, pgid, stat in rows]


def main() -> None:
    """Follows the groups named on standard input until it ends, then ends those that are left."""
    for signum in IGNORED_SIGNALS:
        signal.signal(signum, signal.SIG_IGN)
    cleanups: dict[int, list[str]] = {}
    for line in sys.stdin:
        verb, group, *command = line.split(maxsplit=2)
        if verb == "add":
            cleanups[int(group)] = json.loads(command[0]) if command else []
        else:
            cleanups.pop(int(group), None)
    if cleanups:
        end_groups(cleanups, GUARD_GRACE_S)
    for command in filter(None, cleanups.values()):
        clean_up(command)


if __name__ == "__main__":
    main()
