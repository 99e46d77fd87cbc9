"""Findings and figures of a check as lines of text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trl_envs.preflight.findings import Report

_MARGIN = " " * 9
_PLAYERS = {"solver": "the solver", "random": "the random player", "script": "a script that calls each tool once"}


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


def budget_lines(report: Report) -> list[str]:
    """The tables of tokens and of GPU memory: what is needed, and the limits that it must fit into."""
    return [*_token_lines(report.figures.get("tokens")), *_memory_lines(report.figures.get("memory"))]


def _token_lines(tokens: Mapping[str, Any] | None) -> list[str]:
    if not tokens or not any(tokens["games"].values()):
        return []
    limits = tokens["limits"]
    lines = [f"tokens   {'':<12}{'median':>8}{'95th pct':>10}   limit"]
    for name, several in tokens["games"].items():
        for games in several:
            lines += [
                f"{_MARGIN}{name}: {games['episodes']} games of {_PLAYERS[games['player']]}",
                _row("prompt", games["prompt"], ""),
                _row("episode", games["completion"], _limit(limits["completion"], "max_completion_length")),
                _row("tool calls", games["calls"], _limit(limits["calls"], "max_tool_calling_iterations")),
            ]
    if limits["positions"]:
        lines.append(f"{_MARGIN}the model was made for {limits['positions']} tokens, prompt and episode together")
    if limits["vllm"]:
        lines.append(f"{_MARGIN}vLLM takes {limits['vllm']} (grpo.vllm_max_model_length), prompt and episode together")
    if limits["thinking"]:
        lines.append(f"{_MARGIN}thoughts aren't in these; {limits['thinking']} tokens a turn are allowed for (a guess)")
    return lines


def _row(what: str, spread: Mapping[str, int], limit: str) -> str:
    return f"{_MARGIN}{what:<12}{spread['median']:>8}{spread['p95']:>10}   {limit}".rstrip()


def _limit(value: int | None, name: str) -> str:
    return f"{'none' if value is None else value} (grpo.{name})"


def _memory_lines(memory: Mapping[str, Any] | None) -> list[str]:
    if not memory:
        return []
    if not memory["parts"]:
        return [f"memory   not estimated: {memory['why_not']}"]
    lines = [f"memory   estimated GiB of {memory['gpu']} ({memory['gpu_gib']:.1f} GiB)"]
    lines += [f"{_MARGIN}{what:<28}{gib:>8.1f}" for what, gib in memory["parts"].items()]
    lines.append(f"{_MARGIN}{'together, at the most':<28}{memory['peak_gib']:>8.1f}")
    lines.append(f"{_MARGIN}{'if all episodes are longest':<28}{memory['worst_gib']:>8.1f}")
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
