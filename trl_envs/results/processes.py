"""Whether the process that wrote a record still runs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

PROC = Path("/proc")


def process_identity(pid: int) -> str:
    """What tells a process from a later one with the same id, also after a reboot; empty if there is no such process.

    On Linux the boot's id and the start time in clock ticks since then (proc(5), field 22), elsewhere the start time
    as `ps` prints it. A zombie counts as gone.
    """
    if (PROC / "self" / "stat").exists():
        try:
            fields = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return ""
        state, start_ticks = fields[0], fields[19]
        boot = (PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return "" if state in ("Z", "X") else f"{boot}:{start_ticks}"
    command = ["ps", "-o", "stat=,lstart=", "-p", str(pid)]
    # ps exits with 1 and prints nothing if there is no such process; the locale decides how it writes a date.
    answer = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C", "TZ": "UTC"})
    state, _, started = answer.stdout.strip().partition(" ")
    return "" if state.startswith("Z") else started.strip()
