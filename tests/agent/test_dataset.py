from __future__ import annotations

from trl_envs.agent.dataset import build_mixed_rows, build_rows, episode_seed
from trl_envs.config.schema import EnvConfig


def test_rows_carry_prompt_environment_and_a_seed_of_their_own() -> None:
    envs = {
        "a": EnvConfig(prompt="Play.\n", episodes=50, seed=1),
        "b": EnvConfig(prompt="Go.\n", system_prompt="Be brief.", episodes=2, seed=1),
    }
    rows = build_rows(envs)
    assert [row["environment"] for row in rows] == ["a"] * 50 + ["b"] * 2
    assert rows[0]["prompt"] == [{"role": "user", "content": "Play.\n"}]
    assert rows[-1]["prompt"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Go.\n"},
    ]
    seeds = [row["seed"] for row in rows]
    assert len(set(seeds)) == 52
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_seeds_are_the_same_for_the_same_run_and_others_for_another() -> None:
    assert episode_seed(0, "catch", 3) == episode_seed(0, "catch", 3)
    runs = [[episode_seed(seed, "catch", index) for index in range(100)] for seed in (0, 1)]
    assert not set(runs[0]) & set(runs[1])


def test_mixed_rows_keep_the_share_in_every_batch_and_lose_no_order() -> None:
    envs = {"a": EnvConfig(prompt="A", episodes=9), "b": EnvConfig(prompt="B", episodes=100)}
    rows = build_mixed_rows(envs, {"a": 1, "b": 3}, seed=0)
    assert len(rows) == 9 * 4
    for batch in range(9):
        names = [row["environment"] for row in rows[4 * batch : 4 * batch + 4]]
        assert sorted(names) == ["a", "b", "b", "b"]
    assert len({row["seed"] for row in rows}) == len(rows)
    # Not always the same place in the batch, and the same order for the same seed.
    assert len({[row["environment"] for row in rows[4 * i : 4 * i + 4]].index("a") for i in range(9)}) > 1
    assert rows == build_mixed_rows(envs, {"a": 1, "b": 3}, seed=0)
