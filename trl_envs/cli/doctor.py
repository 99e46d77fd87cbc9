"""`trl-env doctor`: what this machine has, what is out of its window, and what each extra would give."""

from __future__ import annotations

import json
from typing import Any

import typer

from trl_envs.cli.options import AsJson


def doctor(as_json: AsJson = False) -> None:
    """Say what is installed, what is out of its window with the line that repairs it, and which GPUs are visible.

    \b
    trl-env doctor
    trl-env doctor --json

    Exit code 2 if a package that trl-env needs is missing or out of its window, or two of them contradict each other.
    """
    from trl_envs.preflight.installation import examine

    found = examine()
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    else:
        typer.echo(_as_text(found))
    if found["conflicts"] or any(row["repair"] for row in found["packages"] if row["needed"]):
        raise typer.Exit(2)


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
    lines += [f"{row['says']}: {row['repair']}" for row in found["conflicts"]]
    if found["conflicts"]:
        lines.append("")
    for row in found["extras"]:
        state = "installed" if row["installed"] else row["install"]
        lines.append(f"extra {row['name']:<8} {row['gives']}: {state}")
    lines += ["", f"HF_TOKEN is {'set' if found['hf_token'] else 'not set'}"]
    if found["hf_hub_offline"]:
        lines.append("HF_HUB_OFFLINE is set: models come from this machine alone")
    return "\n".join(lines)
