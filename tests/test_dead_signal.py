"""A whole run whose reward is always the same, and which is to stop at that."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.whole_runs import assert_nothing_is_left, run, the_run

FLAT = """
defaults: [catch, _self_]
description: catch, with the same reward for everything
envs:
  catch:
    rewards:
      caught: {weight: 0}
      flat: {_target_: flat_reward.flat}
"""


@pytest.mark.slow
def test_a_run_with_a_constant_reward_stops_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "flat.yaml").write_text(FLAT)
    (tmp_path / "flat_reward.py").write_text("def flat(episode):\n    return 0.5\n")
    code, _, err = run(
        tmp_path,
        "recipe=flat",
        "preset=smoke",
        "grpo.max_steps=20",
        "watch.on_dead_signal=stop",
        "watch.patience_steps=2",
    )
    assert code == 1, err
    assert "warning: the reward was 0.50 in every episode of the last 2 steps (catch.flat)" in err
    assert "error: stopped at step " in err and "constant_reward" in err and "hint: trl-env baseline recipe=flat" in err
    path = the_run(tmp_path)
    record = json.loads((path / "record.json").read_text())
    assert (record["status"], record["exit_code"]) == ("failed", 1)
    assert [sign["name"] for sign in record["signs"]] == ["constant_reward"]
    assert record["global_step"] < 20
    assert_nothing_is_left(path)
