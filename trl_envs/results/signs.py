"""What a sign that a run can't learn is, and the stretch of metrics in which it is looked for (by sign_rules.py)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from trl_envs.results.metrics import number_of, term_of

Line = Mapping[str, Any]


@dataclass(frozen=True)
class Sign:
    """A sign that a run can't learn, JSON-able.

    Args:
        name: Which sign; each is told once a run.
        message: What is seen, with its numbers.
        hint: An override to try, or where to look.
    """

    name: str
    message: str
    hint: str


@dataclass(frozen=True)
class RunNumbers:
    """What the rules need of the config.

    Args:
        recipe: Name of the recipe.
        weights: Weight of each reward term by `<environment>.<term>`; 1.0 for one that isn't in it.
        max_completion_length: Tokens of an episode; None is no limit.
        num_generations: Episodes a group.
        temperature: Of sampling.
        learning_rate: Of the optimizer.
    """

    recipe: str
    weights: Mapping[str, float]
    max_completion_length: int | None
    num_generations: int
    temperature: float
    learning_rate: float


@dataclass(frozen=True)
class Stretch:
    """The lines to judge.

    Args:
        lines: Training's lines of the last steps, one at least.
        before: Those before them.
        steps: How many steps `lines` stand for, at least.
        numbers: The run's.
    """

    lines: Sequence[Line]
    before: Sequence[Line]
    steps: int
    numbers: RunNumbers

    def values(self, key: str) -> list[float]:
        """The metric's numbers; lines without one are left out."""
        return [value for line in self.lines if (value := number_of(line, key)) is not None]

    def always(self, key: str, holds: Callable[[float], bool]) -> bool:
        """Whether every line has a number that fits."""
        values = self.values(key)
        return len(values) == len(self.lines) and all(holds(value) for value in values)

    def terms(self) -> list[str]:
        """Reward terms that were logged, scored or not."""
        return sorted({term for line in self.lines for key in line if (term := term_of(key))})

    def first(self, key: str) -> float | None:
        """The metric's mean over as many lines at the beginning of the run; None if those are the ones to judge."""
        if len(self.before) < len(self.lines):
            return None
        values = [v for line in self.before[: len(self.lines)] if (v := number_of(line, key)) is not None]
        return fmean(values) if values else None

    def weighted(self, term: str, what: str) -> list[float]:
        """`mean` or `std` of a term, times its weight."""
        weight = self.numbers.weights.get(term, 1.0)
        return [weight * value for value in self.values(f"rewards/{term}/{what}")]
