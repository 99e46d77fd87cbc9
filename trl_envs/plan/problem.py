"""What can't work, in one form for the plan and for preflight, and the error that names all of it at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trl_envs.errors import PreflightError


@dataclass(frozen=True)
class Problem:
    """One thing that can't work.

    Args:
        key: The config key to change.
        message: What is wrong with which value, and why.
        hint: The override or command that fixes it.
    """

    key: str
    message: str
    hint: str


def refuse(problems: Sequence[Problem]) -> None:
    """Does nothing without a problem.

    Raises:
        PreflightError: Naming every problem, each with its fix.
    """
    if not problems:
        return
    if len(problems) == 1:
        raise PreflightError(problems[0].message, problems[0].hint)
    parts = [f"{len(problems)} things can't work"]
    for number, problem in enumerate(problems, start=1):
        parts.append(f"{number}. {_indented(problem.message)}\n   fix: {_indented(problem.hint)}")
    raise PreflightError("\n\n".join(parts))


def _indented(text: str) -> str:
    return text.replace("\n", "\n   ")
