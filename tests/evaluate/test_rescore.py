"""Rescoring: what was recorded comes out again exactly, and what is changed as computed by hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tests.recorded import RECIPES, bare_run, files_of, lines_of, recorded_run, write_episodes
from trl_envs import rescoring
from trl_envs.config.frozen import changed_config
from trl_envs.config.store import load_config
from trl_envs.errors import ConfigError, TrainingFailed
from trl_envs.evaluate.rescore import rescore
from trl_envs.results.rescored import Rescored, rescored_table, signal_lines
from trl_envs.results.rundir import RunDirectory

ROOT = Path(__file__).parent.parent.parent
TERMS = "tests.evaluate.rescored_terms"


def anew(run: RunDirectory, *overrides: str) -> Rescored:
    """The run scored with overrides, in this process."""
    before = load_config(run.config_file)
    return rescore(run, before, changed_config(before, overrides, "", ""))


@pytest.mark.parametrize("recipe", RECIPES)
def test_an_unchanged_config_gives_the_recorded_terms_exactly(tmp_path: Path, recipe: str) -> None:
    run = recorded_run(tmp_path, recipe)
    lines = lines_of(run.episodes_file)
    found = anew(run)
    assert set(found.terms) == {name for line in lines for name in line["rewards"]}
    for term in (*found.terms.values(), found.reward):
        # Equal, not close: training scored in single precision, and so does this.
        assert term.before == term.after
        assert (term.changed, term.kept) == (0, False)
    for name, term in found.terms.items():
        recorded = [line["rewards"][name] for line in lines if name in line["rewards"]]
        assert term.before is not None and term.before.value.n == len(recorded)
        assert term.before.value.mean == pytest.approx(sum(recorded) / len(recorded), abs=1e-12)
    assert (found.episodes, found.lost, found.gained, found.lost_signal) == (len(lines), 0, 0, 0)
    assert found.groups == len(lines) / 4


def wordle_games(run: RunDirectory) -> None:
    """Two groups of four games, and one that was lost, with the terms of recipes/wordle.yaml."""

    def game(group: int, guesses: int | None, greens: int, invalid: int, win: float, partial: float) -> dict[str, Any]:
        facts = {
            "won": guesses is not None,
            "guesses": guesses or 6,
            "attempts": 6,
            "greens": greens,
            "invalid": invalid,
        }
        rewards = {"wordle.win": win, "wordle.partial": partial, "wordle.invalid": -0.1 * invalid}
        return {"environment": "wordle", "group": group, "facts": facts, "rewards": rewards}

    lost = {"wordle.win": None, "wordle.partial": None, "wordle.invalid": None}
    write_episodes(
        run,
        [
            # Won in three of six guesses: 1 + 0.5 x 0.5.
            game(0, 3, 5, 0, 1.25, 0.0),
            game(0, 6, 5, 0, 1.0, 0.0),
            game(0, None, 2, 0, 0.0, 0.2),
            {"environment": "wordle", "group": 0, "lost": "the server went away", "rewards": lost},
            # Nobody won: they differ by their invalid words alone.
            *(game(1, None, 1, invalid, 0.0, 0.1) for invalid in (0, 0, 1, 2)),
        ],
    )


def test_a_changed_number_changes_as_computed_by_hand(tmp_path: Path) -> None:
    run = bare_run(tmp_path, "wordle")
    wordle_games(run)
    found = anew(run, "envs.wordle.rewards.win.speed_bonus=1")
    win = found.terms["wordle.win"]
    assert win.before is not None and win.after is not None
    # 1.25 becomes 1 + 1 x (1 - 3/6) = 1.5; a win in the last guess stays 1.
    assert win.before.value.mean == pytest.approx((1.25 + 1.0) / 7)
    assert win.after.value.mean == pytest.approx((1.5 + 1.0) / 7)
    assert (win.changed, win.before.groups, win.after.groups) == (1, 1, 1)
    assert found.terms["wordle.partial"].changed == 0
    assert found.reward.before is not None and found.reward.after is not None
    assert found.reward.before.value.mean == pytest.approx((1.25 + 1.0 + 0.2 + 4 * 0.1 - 0.3) / 7)
    assert found.reward.after.value.mean == pytest.approx((1.5 + 1.0 + 0.2 + 4 * 0.1 - 0.3) / 7)
    # The lost one is scored by nothing, before and after.
    assert (found.episodes, found.lost, win.after.value.n) == (8, 1, 7)


def test_groups_lose_and_gain_signal(tmp_path: Path) -> None:
    run = bare_run(tmp_path, "wordle")
    wordle_games(run)
    without = anew(run, "envs.wordle.rewards.invalid.weight=0")
    assert without.terms["wordle.invalid"].after is None
    assert (without.groups, without.gained, without.lost_signal) == (2, 0, 1)
    assert signal_lines(without) == ["groups with signal: 2 of 2 as recorded, 1 as scored anew (0 gained, 1 lost)"]
    flat = bare_run(tmp_path, "wordle", "envs.wordle.rewards.invalid.weight=0", name="flat")
    wordle_games(flat)
    back = anew(flat, "envs.wordle.rewards.invalid.weight=0.5")
    assert (back.gained, back.lost_signal) == (1, 0)
    term = back.terms["wordle.invalid"]
    assert term.before is None and term.after is not None and term.after.weight == 0.5
    # Terms that cancel each other in the sum tell nothing apart, unless TRL normalizes each of them first.
    opposed = ["envs.wordle.rewards.against._target_=trl_envs.envs.wordle.rewards.invalid",
               "envs.wordle.rewards.against.penalty=-0.1"]  # fmt: skip
    assert anew(run, *opposed).lost_signal == 1
    by_term = bare_run(tmp_path, "wordle", "grpo.multi_objective_aggregation=normalize_then_sum", name="by-term")
    wordle_games(by_term)
    assert anew(by_term, *opposed).lost_signal == 0


def test_a_new_term_is_scored_and_one_that_needs_more_than_a_record_keeps_what_was_recorded(tmp_path: Path) -> None:
    live = f"envs.catch.rewards.live._target_={TERMS}.live"
    run = bare_run(tmp_path, "catch", live)
    event = {"tool": "stay", "arguments": {}, "result": "Ball", "error": None, "reward": 0.0, "done": False}
    write_episodes(
        run,
        [
            {"environment": "catch", "events": [event] * n, "facts": {"caught": n > 1},
             "rewards": {"catch.caught": float(n > 1), "catch.live": 3.0 + n}}
            for n in range(4)
        ],
    )  # fmt: skip
    found = anew(
        run, f"envs.catch.rewards.calls={{_target_: {TERMS}.calls, each: 0.5}}", "envs.catch.rewards.live.weight=2"
    )
    calls, kept = found.terms["catch.calls"], found.terms["catch.live"]
    assert calls.before is None and calls.after is not None and calls.after.value.mean == 0.5 * 1.5
    assert kept.kept and kept.before is not None and kept.after is not None
    assert (kept.before.value, kept.after.value, kept.changed) == (kept.after.value, kept.before.value, 0)
    assert (kept.before.weight, kept.after.weight) == (1.0, 2.0)
    assert "taken as recorded, since they need more than the record: catch.live" in signal_lines(found)
    assert rescored_table(found).row_count == 4
    assert Rescored.from_dict(json.loads(json.dumps(asdict(found)))) == found
    for change in ("envs.catch.rewards.live.bonus=2", f"envs.catch.rewards.late._target_={TERMS}.live"):
        with pytest.raises(ConfigError, match="can't be scored anew") as refused:
            anew(run, change)
        assert "function of the episode" in refused.value.hint


def test_a_term_that_fails_on_a_record_is_named(tmp_path: Path) -> None:
    with pytest.raises(TrainingFailed, match=r"catch\.mine failed: KeyError"):
        anew(recorded_run(tmp_path, "catch"), f"envs.catch.rewards.mine._target_={TERMS}.absent_fact")


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["grpo.learning_rate=1"], "grpo.learning_rate can't be changed for episodes that are played already"),
        (["recipe=echo"], "recipe can't be chosen anew"),
        (["envs.catch.rewards.cought.weight=1"], "has no _target_"),
        (["seed"], "'seed' is not an override"),
    ],
)
def test_what_isnt_about_reward_terms_is_refused(tmp_path: Path, overrides: list[str], says: str) -> None:
    run = recorded_run(tmp_path, "catch")
    with pytest.raises(ConfigError, match=says):
        rescoring.rescore(run.path, overrides)


def test_what_holds_no_episodes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no run directory"):
        rescoring.rescore(tmp_path, [])
    with pytest.raises(ConfigError, match="has recorded no episodes"):
        rescoring.rescore(bare_run(tmp_path, "catch").path, [])


def test_the_command_rescores_and_leaves_the_run_as_it_was(tmp_path: Path) -> None:
    run = recorded_run(tmp_path, "wordle")
    before = files_of(run.path)
    (tmp_path / "my_terms.py").write_text("def none(episode):\n    return None\n")
    done = subprocess.run(
        [sys.executable, "-m", "trl_envs", "rescore", "run", "envs.wordle.rewards.partial.per_green=0.2", "--json",
         "envs.wordle.rewards.none._target_=my_terms.none"],
        cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    partial, none = found["terms"]["wordle.partial"], found["terms"]["wordle.none"]
    assert partial["after"]["value"]["mean"] == pytest.approx(2 * partial["before"]["value"]["mean"])
    assert none["after"]["value"]["mean"] is None and none["before"] is None
    assert files_of(run.path) == before
