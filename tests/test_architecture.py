"""Who may import whom: the rooms of the house, held against every import in the source, lazy ones included."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "trl_envs"
EVERYWHERE = {"errors", "paths"}
# A room may import itself, what is named here, and EVERYWHERE. The empty name is trl_envs/__init__.py (the version).
MAY_IMPORT = {
    "config": set(),
    "machine": set(),
    "plan": {"config", "machine"},
    "runtime": {"plan"},
    "servers": {"config", "runtime", "plan"},
    # servers/docker.py: the child process that runs a container through openenv's provider.
    "container": set(),
    "rollout": set(),
    "envs": {"rollout"},
    "agent": {"config", "envs", "rollout"},
    "preflight": {"config", "plan", "machine"},
    # preflight/probe*.py: the probe's child process, and nothing that the launcher loads.
    "probe": {"preflight", "config", "plan", "machine", "agent", "envs", "rollout"},
    "training": {"config", "agent", "envs", "rollout", "results"},
    "evaluate": {"config", "agent", "envs", "rollout", "results"},
    "results": set(),
    # What came of a run, read from its directory. It draws games from records, and knows nothing of playing them.
    "report": {"config", "envs", "results"},
    "leaving": {"config", "plan", "report", "results", "runtime"},
    "stage": {"config", "plan", "preflight", "runtime", "servers", "results"},
    "launch": {"stage", "leaving", "config", "machine", "plan", "preflight", "runtime", "servers", "results"},
    "rehearse": {"launch", "stage", "config", "machine", "plan", "preflight", "results", "runtime"},
    "contest": {"rehearse", "launch", "stage", "config", "plan", "preflight", "results"},
    "rescoring": {"config", "plan", "results", "runtime"},
    "warmup": {"rehearse", "launch", "stage", "config", "machine", "plan", "preflight", "results", "runtime"},
    "cli": {
        "warmup",
        "contest",
        "launch",
        "rehearse",
        "rescoring",
        "report",
        "config",
        "plan",
        "preflight",
        "servers",
        "results",
        "runtime",
        "",
    },
    "errors": set(),
    "paths": set(),
    "__init__": set(),
    "__main__": {"cli"},
}
HEAVY = {"torch", "transformers", "trl", "openenv", "datasets", "peft", "vllm", "gradio", "pyspiel", "textarena"}
# Rooms that the launcher's own process loads.
PARENT = {
    "config",
    "machine",
    "plan",
    "runtime",
    "servers",
    "results",
    "launch",
    "leaving",
    "rehearse",
    "contest",
    "report",
    "rescoring",
    "warmup",
    "stage",
    "cli",
    "errors",
    "paths",
    "preflight",
}


def room_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    if parts == ("servers", "docker"):
        return "container"
    return "probe" if parts[0] == "preflight" and parts[-1].startswith("probe") else parts[0]


def imported(path: Path) -> set[str]:
    """Modules that a file imports, at any depth of nesting; imports for types alone don't count as loading."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module or "")
            if node.module == "trl_envs":
                found |= {f"trl_envs.{alias.name}" for alias in node.names if (PACKAGE / alias.name).exists()}
                found |= {f"trl_envs.{alias.name}" for alias in node.names if (PACKAGE / f"{alias.name}.py").exists()}
    return found


FILES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_stay_within_the_table(path: Path) -> None:
    room = room_of(path)
    allowed = MAY_IMPORT[room] | EVERYWHERE | {room}
    for module in imported(path):
        if module == "trl_envs" or module.startswith("trl_envs."):
            other = module.partition(".")[2].partition(".")[0]
            assert other in allowed or other == "", f"{room} may not import {module}"
        elif room in PARENT:
            assert module.partition(".")[0] not in HEAVY, f"{room} is loaded by the launcher and may not load {module}"
        elif module.partition(".")[0] == "openenv":
            assert path.name == "openenv_core.py", "import it from rollout/openenv_core.py, which leaves gradio out"
        if room in PARENT:
            assert not module.startswith("trl_envs.preflight.probe"), f"{module} is for the probe's own process"
            assert module != "trl_envs.servers.docker", f"{module} is a process of its own"


def test_every_file_and_function_is_of_a_size_to_be_read() -> None:
    assert len(FILES) > 40
    for path in FILES:
        text = path.read_text()
        assert len(text.splitlines()) <= 300, path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                size = (node.end_lineno or 0) - node.lineno + 1
                assert size <= 50, f"{path}: {node.name} has {size} lines"


def test_configs_and_recipes_hold_nothing_but_yaml() -> None:
    for folder in ("configs", "recipes"):
        files = [path for path in (PACKAGE.parent / folder).rglob("*") if path.is_file()]
        assert files
        assert {path.suffix for path in files} == {".yaml"}
