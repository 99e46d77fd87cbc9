"""Before and after: what is compared, what the table says, and that the files say the same."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from trl_envs.results.comparison import compare, comparison_table
from trl_envs.results.evaluation import EnvironmentResult, Evaluation, read_evaluation, write_evaluation
from trl_envs.results.outcome import Outcome
from trl_envs.results.rundir import RunDirectory
from trl_envs.results.statistics import estimate


def evaluation(name: str, caught: int, speed: list[float], lost: int = 0) -> Evaluation:
    hits = estimate([1.0] * caught + [0.0] * (200 - caught - lost))
    result = EnvironmentResult(
        episodes=200,
        lost=lost,
        terms={"caught": hits, "speed": estimate(speed)},
        wins=hits,
        turns=estimate([10.0, 11.0]),
        tokens=estimate([400.0, 410.0]),
        tool_calls=1800,
        tool_failures=3,
    )
    return Evaluation(name, "tiny", 1.0, 7, 12.5, {"catch": result})


def text(before: Evaluation, after: Evaluation) -> str:
    console = Console(file=io.StringIO(), width=100, color_system=None)
    console.print(comparison_table(before, after))
    # The caption is broken into lines as wide as the table.
    return " ".join(console.file.getvalue().split())  # type: ignore[attr-defined]


def test_each_term_and_the_wins_are_compared() -> None:
    caught, speed, won = compare(evaluation("before", 100, [1.0, 2.0, 3.0]), evaluation("after", 150, [2.0, 2.5, 3.0]))
    assert [one.name for one in (caught, speed, won)] == ["catch.caught", "catch.speed", "catch won"]
    assert caught.difference.value == 0.25
    assert caught.difference.low is not None and 0.1 < caught.difference.low < 0.25
    assert speed.difference.low is not None and speed.difference.low < 0
    assert won.difference == caught.difference


def test_the_table_says_what_changed_and_how_it_was_found_out() -> None:
    shown = text(evaluation("before", 100, [1.0, 2.0]), evaluation("after", 150, []))
    assert "0.500" in shown and "0.750" in shown and "+0.250" in shown and "+0.156 to +0.338" in shown
    assert "unscored" in shown
    assert "200 episodes each time, sampled at temperature 1" in shown and "lost" not in shown
    assert "3 lost ones left out" in text(evaluation("before", 100, [], lost=3), evaluation("after", 100, []))


def test_an_evaluation_is_read_as_it_was_written(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, "run")
    assert read_evaluation(run, "before") is None
    found = evaluation("before", 20, [1.0])
    write_evaluation(run, found, "before")
    assert read_evaluation(run, "before") == found
    failed = Outcome(error="TrainingFailed", message="why", hint="what")
    write_evaluation(run, failed, "after")
    assert read_evaluation(run, "after") == failed
