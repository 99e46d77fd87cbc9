"""Which releases work together: the windows that trl-env was written for, and what the packages ask of each other."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from trl_envs.machine import Conflict
from trl_envs.plan.facts import MachineFacts
from trl_envs.plan.problem import Problem

# From the first release up to and without the second: those of pyproject.toml. fastmcp 3, through which openenv 0.10
# speaks MCP, needs mcp before 2, and vLLM from 0.30 on needs mcp 2: so vLLM's window ends there, though TRL's goes on.
WINDOWS = {
    "trl": ((1, 16), (1, 17)),
    "openenv": ((0, 10), (0, 11)),
    "transformers": ((5, 2), (6, 0)),
    "torch": ((2, 6), (3, 0)),
    "mcp": ((1, 24), (2, 0)),
    "vllm": ((0, 28), (0, 30)),
}
# The release in the window that a plan is made for where none is installed.
ASSUMED_VLLM = "0.29.0"
# Looked up once for a run; DeepSpeed is needed by launch.accelerate=zero2 and zero3 alone, and Trackio by nothing.
CHECKED = (*WINDOWS, "accelerate", "fastmcp", "deepspeed", "trackio")
# Whose own requirements are held against what is installed: vLLM for one is built for exactly one release of torch.
ASKING = ("trl", "openenv", "fastmcp", "transformers", "accelerate", "vllm")


def version_problems(facts: MachineFacts, mode: str) -> list[Problem]:
    """Packages out of their window, and packages that don't work together; vLLM only if the model generates with it.

    Args:
        facts: What the machine has.
        mode: How the model will generate: single, colocate or server.
    """
    asked = [name for name in WINDOWS if not (name == "vllm" and mode == "single")]
    there = {name: version for name in asked if (version := facts.versions.get(name)) is not None}
    bad = {name: version for name, version in there.items() if not in_window(name, version)}
    at_odds = [c for c in facts.conflicts if not {c.package, c.name} & {*bad, *({"vllm"} - set(asked))}]
    line = repair(list(bad), at_odds)
    return [
        *(
            Problem(name, f"{name} {version} is installed, and trl-env needs {name}{window_text(name)}", line)
            for name, version in bad.items()
        ),
        *(Problem(conflict.name, describe(conflict), line) for conflict in at_odds),
    ]


def describe(conflict: Conflict) -> str:
    """A conflict in words."""
    return (
        f"{conflict.package} {conflict.version} needs {conflict.requirement}, "
        f"and {conflict.name} {conflict.found} is installed"
    )


def repair(out_of_window: Sequence[str], conflicts: Sequence[Conflict]) -> str:
    """The one pip line after which all of these fit."""
    wanted = {name: f"{name}{window_text(name)}" for name in out_of_window}
    for conflict in conflicts:
        wanted.setdefault(conflict.package, f"{conflict.package}=={conflict.version}")
        wanted[conflict.name] = conflict.requirement
    return "pip install " + " ".join(f"'{requirement}'" for requirement in wanted.values())


def in_window(name: str, version: str) -> bool:
    """Whether a package's version is one for which trl-env was written; any is, of a package without a window."""
    first, after = WINDOWS.get(name, ((0, 0), (sys.maxsize, 0)))
    return first <= _release(version) < after


def window_text(name: str) -> str:
    """The window of a package as pip writes it; empty for one without."""
    if name not in WINDOWS:
        return ""
    first, after = WINDOWS[name]
    return f">={_dotted(first)},<{_dotted(after)}"


def _release(version: str) -> tuple[int, int]:
    """Major and minor number of a version such as `1.16.0` or `0.29.1rc2+cpu`."""
    numbers = [int(part) for part in version.split(".")[:2] if part.isdigit()]
    return (numbers[0], numbers[1]) if len(numbers) == 2 else (numbers[0] if numbers else 0, 0)


def _dotted(release: tuple[int, int]) -> str:
    return ".".join(map(str, release))
