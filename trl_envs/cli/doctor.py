"""`trl-env doctor`: what this machine has, what is out of its window, and what each extra would give."""

from __future__ import annotations

import json
import os
import platform
import sys
from typing import Any

import typer

from trl_envs.cli.options import AsJson

EXTRAS = {
    "vllm": "vLLM generates on the GPU, several times faster than transformers (launch=colocate)",
    "trackio": "live dashboards of a run (logging.report_to=[trackio])",
}


def doctor(as_json: AsJson = False) -> None:
    """Say what is installed, what is out of its window with the line that repairs it, and which GPUs are visible.

    \b
    trl-env doctor
    trl-env doctor --json

    Exit code 2 if a package that trl-env needs is missing or out of its window.
    """
    found = examine()
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    else:
        typer.echo(_as_text(found))
    if any(row["repair"] for row in found["packages"] if row["needed"]):
        raise typer.Exit(2)


def examine() -> dict[str, Any]:
    """Everything that doctor says, JSON-able."""
    from dataclasses import asdict

    from trl_envs.machine import has_mps, query_gpus

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
        "extras": _extras(),
        # Whether, not what: a token must not be printed.
        "hf_token": bool(os.environ.get("HF_TOKEN")),
        "hf_hub_offline": os.environ.get("HF_HUB_OFFLINE", "") not in ("", "0"),
    }


def _packages() -> list[dict[str, Any]]:
    from trl_envs.machine import installed_versions
    from trl_envs.preflight.run_rules import WINDOWS, in_window, window_text

    others = ("torch", "datasets", "accelerate", "peft", "hydra-core", "omegaconf", "typer")
    versions = installed_versions(["trl-env", *WINDOWS, *others])
    rows = []
    for name, version in versions.items():
        needed = name not in (*EXTRAS, "trl-env")
        window = window_text(name)
        bad = (version is None and needed) or (version is not None and not in_window(name, version))
        repair = f"pip install '{name}{window}'" if bad else ""
        rows.append({"name": name, "installed": version, "window": window, "needed": needed, "repair": repair})
    return rows


def _extras() -> list[dict[str, Any]]:
    from trl_envs.machine import installed_versions

    versions = installed_versions(EXTRAS)
    return [
        {"name": name, "installed": versions[name], "gives": gives, "install": f"pip install 'trl-env[{name}]'"}
        for name, gives in EXTRAS.items()
    ]


def _as_text(found: dict[str, Any]) -> str:
    lines = [f"python {found['python']} ({found['executable']})", f"{found['platform']}, {found['cores']} cores", ""]
    gpus = [f"gpu {gpu['index']}: {gpu['name']}, {gpu['memory_gib'] or '?'} GiB" for gpu in found["gpus"]]
    none = "no GPU: " + (
        "Apple Metal will be used" if found["mps"] else found["gpu_problem"] or "models train on the CPU"
    )
    lines += gpus or [none]
    lines.append("")
    for row in found["packages"]:
        state = "out of its window" if row["installed"] else "missing"
        note = f"   {state}: {row['repair']}" if row["repair"] else ""
        lines.append(f"{row['name']:<14} {row['installed'] or 'not installed':<16} {row['window']:<14}{note}".rstrip())
    lines.append("")
    for row in found["extras"]:
        state = "installed" if row["installed"] else row["install"]
        lines.append(f"extra {row['name']:<8} {row['gives']}: {state}")
    lines += ["", f"HF_TOKEN is {'set' if found['hf_token'] else 'not set'}"]
    if found["hf_hub_offline"]:
        lines.append("HF_HUB_OFFLINE is set: models come from this machine alone")
    return "\n".join(lines)
