from __future__ import annotations

import pytest

from trl_envs.config.compose import compose
from trl_envs.errors import PreflightError
from trl_envs.plan.batch import build_batch
from trl_envs.plan.mix import groups_of


@pytest.mark.parametrize(
    ("mix", "groups", "expected"),
    [
        ({"a": 1, "b": 1}, 4, {"a": 2, "b": 2}),
        ({"a": 0.5, "b": 0.25, "c": 0.25}, 8, {"a": 4, "b": 2, "c": 2}),
        ({"a": 3, "b": 1}, 4, {"a": 3, "b": 1}),
        ({"a": 0.1, "b": 0.2}, 3, {"a": 1, "b": 2}),
        ({"a": 1}, 5, {"a": 5}),
    ],
)
def test_shares_come_out_exactly(mix: dict[str, float], groups: int, expected: dict[str, int]) -> None:
    assert groups_of(mix, groups) == expected


def test_a_mix_that_does_not_come_out_even_is_not_rounded() -> None:
    with pytest.raises(ValueError, match="even"):
        groups_of({"a": 1, "b": 2}, 4)


@pytest.mark.parametrize(
    ("overrides", "message", "hint"),
    [
        (["mix.wordle=2"], "mix={wordle: 2, catch: 1} can't be kept exactly", "multiple of 3 groups"),
        (["mix.catch=0"], "mix gives catch no share", "mix.catch=1"),
        (["~mix.catch"], "mix gives catch no share", "mix.catch=1"),
        (["envs.catch.episodes=1"], "one generation batch takes 2", "envs.catch.episodes=2"),
    ],
)
def test_a_mix_that_cannot_be_kept_is_refused(overrides: list[str], message: str, hint: str) -> None:
    with pytest.raises(PreflightError) as caught:
        build_batch(compose(["recipe=multi_env", *overrides]).config)
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_the_shipped_mix_works_with_and_without_smoke() -> None:
    for preset in ("full", "smoke", "demo"):
        assert build_batch(compose(["recipe=multi_env", f"preset={preset}"]).config).groups % 2 == 0
