from trl_envs.config.suggest import did_you_mean, nearest


def test_the_last_part_decides_before_the_whole() -> None:
    assert nearest("envs.catch.epsodes", ["envs.catch.episodes", "eval.episodes_x", "envs.catch.app"]) == (
        "envs.catch.episodes"
    )


def test_something_is_always_named_unless_nothing_is_known() -> None:
    assert nearest("zzz", ["rollout", "seed"]) in ("rollout", "seed")
    assert nearest("zzz", []) is None
    assert "did you mean" in did_you_mean("x", ["y"])
    assert "nothing" in did_you_mean("x", [])
