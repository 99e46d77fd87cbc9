"""What is installed and visible here, held against what trl-env was written for."""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import asdict
from typing import Any

from trl_envs.machine import find_conflicts, has_mps, installed_versions, query_gpus
from trl_envs.preflight.versions import ASKING, CHECKED, WINDOWS, describe, in_window, repair, window_text

EXTRAS = {
    "vllm": "vLLM generates on the GPU, several times faster than transformers (launch=colocate)",
    "trackio": "live dashboards of a run, without asking (logging.report_to=[] leaves them out)",
}


def examine() -> dict[str, Any]:
    """Everything that doctor says, JSON-able."""
    seen = query_gpus()
    return {
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "gpus": [asdict(gpu) for gpu in seen.gpus],
        "gpu_problem": seen.problem,
        "mps": has_mps(),
        "packages": _packages(),
        "conflicts": _conflicts(),
        "extras": _extras(),
        # Whether, not what: a token must not be printed.
        "hf_token": bool(os.environ.get("HF_TOKEN")),
        "hf_hub_offline": os.environ.get("HF_HUB_OFFLINE", "") not in ("", "0"),
    }


def _packages() -> list[dict[str, Any]]:
    others = ("datasets", "accelerate", "peft", "hydra-core", "omegaconf", "typer")
    versions = installed_versions(["trl-env", *WINDOWS, *others])
    rows = []
    for name, version in versions.items():
        needed = name not in (*EXTRAS, "trl-env")
        window = window_text(name)
        bad = (version is None and needed) or (version is not None and not in_window(name, version))
        repair = f"pip install '{name}{window}'" if bad else ""
        rows.append({"name": name, "installed": version, "window": window, "needed": needed, "repair": repair})
    return rows


def _conflicts() -> list[dict[str, str]]:
    """Where installed packages disagree with each other, each with the line that repairs it."""
    return [{"says": describe(found), "repair": repair([], [found])} for found in find_conflicts(ASKING, CHECKED)]


def _extras() -> list[dict[str, Any]]:
    versions = installed_versions(EXTRAS)
    return [
        {"name": name, "installed": versions[name], "gives": gives, "install": f"pip install 'trl-env[{name}]'"}
        for name, gives in EXTRAS.items()
    ]
