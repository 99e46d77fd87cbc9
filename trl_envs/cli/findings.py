"""Findings and figures of a check as lines of text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trl_envs.preflight.findings import Report


def figure_lines(report: Report) -> list[str]:
    """One line a measurement: capacity of each server, and a scripted episode of each environment."""
    lines = []
    for entry in report.figures.get("capacity", []):
        tried = "" if entry["tried"] == entry["needed"] else f" (only {entry['tried']} tried)"
        lines.append(
            f"capacity {', '.join(entry['environments'])}: {entry['needed']} sessions needed, {entry['found']} found"
            f"{tried} at {', '.join(entry['urls'])}{_latency('; reset', entry['reset_s'])}"
        )
    for name, entry in report.figures.get("episodes", {}).items():
        rewards = ", ".join(f"{term} {_number(value)}" for term, value in entry["rewards"].items())
        lines.append(f"episode  {name}: {entry['calls']} tool calls, {rewards}{_latency('; step', entry['step_s'])}")
    return lines


def warning_lines(report: Report) -> list[str]:
    """Each warning with what to do about it."""
    return [f"warning: {finding.message}\n         hint: {finding.hint}" for finding in report.warnings]


def _latency(what: str, entry: Mapping[str, Any] | None) -> str:
    if entry is None:
        return ""
    return f"{what} {1000 * entry['median']:.1f} ms median, {1000 * entry['p95']:.1f} ms 95th percentile"


def _number(value: float | None) -> str:
    return "unscored" if value is None else f"{value:.2f}"
