"""Which episodes of training were compared with each other, and how far they lay apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trl_envs.results.jsonlines import JsonLinesWriter, parse_line
from trl_envs.results.panels import build_panels, spread_within_groups
from trl_envs.results.played import BatchShape, Played, differs, groups_of, read_played, weighted_sum


def written(path: Path, lines: list[dict[str, Any]]) -> Path:
    with JsonLinesWriter(path) as writer:
        for number, line in enumerate(lines):
            blank = {"step": 1, "group": 0, "attempt": 1, "mode": "train", "process": 0, "lost": None}
            writer.write({**blank, "environment": "g", "rewards": {"g.t": float(number)}, **line})
    return path


def dealt(path: Path, shape: BatchShape | None) -> list[list[float | None]]:
    """The scores of each group."""
    return [[one.scores["g.t"] for one in group] for group in groups_of(read_played(path, shape))]


def test_groups_are_cut_as_trl_cuts_them(tmp_path: Path) -> None:
    # Two batches in one step, whose groups the process numbers from 0 each.
    twice = written(tmp_path / "twice", [{"group": group} for _ in range(2) for group in (0, 0, 1, 1)])
    assert dealt(twice, BatchShape(2, 4)) == [[0, 1], [2, 3], [4, 5], [6, 7]]
    # A group over two processes, whose lines come as they come.
    across = written(tmp_path / "across", [{"process": process} for process in (0, 1, 1, 0)])
    assert [sorted(group) for group in dealt(across, BatchShape(4, 2))] == [[0, 1, 2, 3]]  # type: ignore[type-var]
    assert [sorted(group) for group in dealt(across, BatchShape(2, 2))] == [[0, 3], [1, 2]]  # type: ignore[type-var]
    assert dealt(across, None) == [[0, 3], [1, 2]]


def test_a_later_attempt_takes_the_place_of_what_it_plays_again_and_evaluation_is_left_out(tmp_path: Path) -> None:
    steps = [{"step": step} for step in (1, 2, 3)]
    path = written(tmp_path / "e", [*steps, {"mode": "eval"}, *({"step": s, "attempt": 2} for s in (2, 3))])
    assert [(one.step, one.scores["g.t"]) for one in read_played(path, None)] == [(1, 0), (2, 4), (3, 5)]
    for one in read_played(path, None):
        with path.open("rb") as lines:
            lines.seek(one.offset_bytes)
            line = parse_line(lines.readline())
        assert line is not None and line["rewards"] == one.scores
    assert read_played(tmp_path / "none", None) == []


def test_a_weighted_sum_leaves_out_what_is_unscored_or_not_weighted() -> None:
    assert weighted_sum({"a": 2.0, "b": None, "c": 5.0}, {"a": 0.5, "b": 1.0}) == 1.0
    assert weighted_sum({"a": None}, {"a": 1.0}) is None
    assert differs([1.0, None, 1.0 + 1e-9]) is False and differs([None]) is False and differs([1.0, 1.1]) is True


def one(step: int, group: int, **scores: float | None) -> Played:
    return Played(0, step, (step, group), "g", None, {f"g.{name}": value for name, value in scores.items()})


def test_spread_is_the_mean_of_the_groups_standard_deviations() -> None:
    played = [
        one(1, 0, t=0.0),
        one(1, 0, t=2.0),
        one(1, 1, t=1.0),
        one(1, 1, t=1.0),
        one(2, 0, t=4.0),
        one(2, 0, t=None),
    ]
    spread = spread_within_groups(played, {"g.t": 0.5})
    # The two of the first group: sqrt(2) by n - 1; the second one none; step 2 has one scored episode.
    assert spread["g.t"] == {1: pytest.approx(2**0.5 / 2)}
    assert spread[""] == {1: pytest.approx(2**0.5 / 4)}


def test_panels_hold_what_was_logged_and_nothing_else() -> None:
    metrics = [
        {"step": step, "reward": 0.1 * step, "rewards/g.t/mean": None if step == 2 else 0.2, "episodes/lost": 0,
         "completions/mean_length": 10.0, "completions/min_length": 5.0, "completions/max_length": 20.0}
        for step in (1, 2, 3)
    ]  # fmt: skip
    panels = {panel.title: panel for panel in build_panels([*metrics, {"step": 3, "train_runtime": 1.0}], [], {})}
    assert list(panels) == ["reward", "g.t", "tokens per episode"]
    assert panels["g.t"].steps == [1, 3]
    assert (panels["tokens per episode"].low, panels["tokens per episode"].high) == ([5.0] * 3, [20.0] * 3)
    assert build_panels([], [], {}) == []
    lost = build_panels([{"step": 1, "reward": None, "episodes/lost": 2}], [], {})
    assert [(panel.title, panel.values) for panel in lost] == [("episodes lost", [2.0])]
