"""metrics.jsonl: one line for whatever the trainer logs, with the step.

Names are TRL's own (`reward`, `tools/call_frequency`, `completions/mean_length`), `rewards/<env>.<term>/mean` for the
terms, and ours: `time/environment_s`, `time/generation_s`, `episodes/played`, `episodes/lost` (each of that step).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trl_envs.results.jsonlines import JsonLinesTail, JsonLinesWriter, read_json_lines

# By which a line of training, of evaluation, and of the end of a run are told apart; all three may have the same step.
KIND_KEYS = ("reward", "eval_reward", "train_runtime")


class MetricsWriter:
    """Appends to metrics.jsonl; each line is on disk when `write` returns.

    Args:
        path: The file; see `JsonLinesWriter`.
    """

    def __init__(self, path: Path) -> None:
        self._lines = JsonLinesWriter(path)

    def write(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Appends one line; NaN and infinities are written as null, because JSON has neither."""
        self._lines.write({"step": step, **metrics})

    def close(self) -> None:
        """Closes the file; harmless twice."""
        self._lines.close()


class MetricsTail(JsonLinesTail):
    """Follows metrics.jsonl while a run writes it: `new()` gives each line once, complete ones only."""


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The logged lines in order of steps; a missing file has none.

    A resumed run goes through the steps after its checkpoint again: its lines replace those of the attempt before.
    """
    kept: list[dict[str, Any]] = []
    for line in read_json_lines(path):
        while kept and _supersedes(line, kept[-1]):
            kept.pop()
        kept.append(line)
    return kept


def _supersedes(line: Mapping[str, Any], earlier: Mapping[str, Any]) -> bool:
    step, earlier_step = line.get("step"), earlier.get("step")
    if not isinstance(step, int) or not isinstance(earlier_step, int):
        return False
    same_kind = any(key in line and key in earlier for key in KIND_KEYS)
    return step < earlier_step or (step == earlier_step and same_kind)


def term_of(key: str) -> str | None:
    """`catch.caught` for `rewards/catch.caught/mean`; None for a key that isn't the mean of a reward term."""
    if key.startswith("rewards/") and key.endswith("/mean"):
        return key[len("rewards/") : -len("/mean")] or None
    return None


def number_of(metrics: Mapping[str, Any], key: str) -> float | None:
    """A metric's value; None if it is missing, null (unscored, NaN) or no number."""
    value = metrics.get(key)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    return None
