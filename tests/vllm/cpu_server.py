"""The program `vllm`, called as on a GPU, on a CPU: what `launch.vllm_executable` names in these tests."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
FLAGS = ("--enforce-eager", "--dtype", "float32", "--worker-extension-cls", "cpu_switches.Worker")


def main() -> None:
    """Becomes vLLM."""
    # In front of what the launcher hands over: its workers import the extension from there.
    path = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    program = (sys.executable, "-m", "vllm.entrypoints.cli.main")
    os.execve(sys.executable, [*program, *sys.argv[1:], *FLAGS], variables)


if __name__ == "__main__":
    main()
