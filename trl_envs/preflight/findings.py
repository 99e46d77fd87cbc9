"""What preflight has to say: findings, from the launcher's own rules and from the probe alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from trl_envs.plan.problem import Problem, refuse

Level = Literal["error", "warning"]


@dataclass(frozen=True)
class Finding:
    """One thing that can't work (error), or that may not be what was wanted (warning).

    Args:
        level: An error keeps the run from starting.
        key: The config key to change.
        message: What is wrong with which value, and why.
        hint: The override or command that fixes it.
    """

    level: Level
    key: str
    message: str
    hint: str

    def as_dict(self) -> dict[str, str]:
        """JSON-able."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Finding:
        """The inverse of `as_dict`.

        Raises:
            ValueError: It is no finding.
        """
        if data.get("level") not in ("error", "warning"):
            raise ValueError(f"not a finding: {data!r}")
        return cls(data["level"], str(data.get("key")), str(data.get("message")), str(data.get("hint")))


@dataclass
class Report:
    """What a check found and measured.

    Args:
        findings: In the order in which they were found.
        figures: JSON-able measurements of the probe: capacity, latencies, episodes (see probe.py); empty without one.
    """

    findings: list[Finding] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)

    @property
    def errors(self) -> list[Finding]:
        """What keeps the run from starting."""
        return [finding for finding in self.findings if finding.level == "error"]

    @property
    def warnings(self) -> list[Finding]:
        """What may not be what was wanted."""
        return [finding for finding in self.findings if finding.level == "warning"]

    def as_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return {"findings": [finding.as_dict() for finding in self.findings], "figures": self.figures}


def errors(problems: Sequence[Problem]) -> list[Finding]:
    """Problems of the plan as findings."""
    return [Finding("error", problem.key, problem.message, problem.hint) for problem in problems]


def raise_errors(report: Report) -> None:
    """Does nothing for a report without errors.

    Raises:
        PreflightError: Naming every error, each with its fix.
    """
    refuse([Problem(finding.key, finding.message, finding.hint) for finding in report.errors])
