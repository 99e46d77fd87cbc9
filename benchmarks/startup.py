"""How long a command takes to answer, against the commands of the libraries it drives.

    python benchmarks/startup.py [--runs 7] [--json]

Each command runs as a whole process, its turn with all others, so that a busy moment hits them alike. The ratio is
ours over the peer's, medians: below 1 is quicker than the peer.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

OURS = {
    "trl-env --help": ["-m", "trl_envs", "--help"],
    "trl-env list": ["-m", "trl_envs", "list"],
    "trl-env show": ["-m", "trl_envs", "show", "recipe=catch", "preset=smoke"],
}
PEER = "trl --help"


def commands() -> dict[str, list[str]]:
    found = {name: [sys.executable, *arguments] for name, arguments in OURS.items()}
    return {**found, PEER: [str(Path(sys.executable).parent / "trl"), "--help"]}


def measure(runs: int) -> dict[str, list[float]]:
    """Seconds of each run of each command; the first, which fills the disk cache, isn't counted."""
    seconds: dict[str, list[float]] = {name: [] for name in commands()}
    for turn in range(runs + 1):
        for name, command in commands().items():
            started = time.perf_counter()
            subprocess.run(command, capture_output=True, check=True, timeout=120)
            if turn:
                seconds[name].append(time.perf_counter() - started)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    seconds = measure(options.runs)
    peer = statistics.median(seconds[PEER])
    rows = [
        {
            "command": name,
            "median_s": round(statistics.median(values), 3),
            "min_s": round(min(values), 3),
            "max_s": round(max(values), 3),
            "ratio": round(statistics.median(values) / peer, 3),
        }
        for name, values in seconds.items()
    ]
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    print(f"{'command':<16} {'median':>8} {'min':>8} {'max':>8} {f'ratio to {PEER}':>20}")
    for row in rows:
        print(f"{row['command']:<16} {row['median_s']:>7}s {row['min_s']:>7}s {row['max_s']:>7}s {row['ratio']:>20}")


if __name__ == "__main__":
    main()
