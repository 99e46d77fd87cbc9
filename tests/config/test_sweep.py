from __future__ import annotations

import pytest

from trl_envs.config.compose import compose
from trl_envs.config.sweep import expand
from trl_envs.errors import ConfigError


def jobs(*arguments: str) -> list[list[str]]:
    return [[item.typed for item in job] for job in expand(arguments)]


def test_every_combination_is_a_job() -> None:
    assert jobs("recipe=echo,catch", "preset=smoke", "seed=range(0,2)") == [
        ["recipe=echo", "preset=smoke", "seed=0"],
        ["recipe=echo", "preset=smoke", "seed=1"],
        ["recipe=catch", "preset=smoke", "seed=0"],
        ["recipe=catch", "preset=smoke", "seed=1"],
    ]


def test_without_several_values_there_is_one_job() -> None:
    assert jobs("recipe=echo", "envs.echo.url=http://h/?a=b", "~grpo.learning_rate") == [
        ["recipe=echo", "envs.echo.url=http://h/?a=b", "~grpo.learning_rate"]
    ]


@pytest.mark.parametrize(
    ("argument", "key", "values"),
    [
        ("grpo.learning_rate=1e-6,1e-5", "learning_rate", [1e-6, 1e-5]),
        ("grpo.generation_kwargs={stop: a},{stop: 'b, c'}", "generation_kwargs", [{"stop": "a"}, {"stop": "b, c"}]),
        ("grpo.top_k=choice(1,2)", "top_k", [1, 2]),
    ],
)
def test_values_keep_their_types(argument: str, key: str, values: list[object]) -> None:
    assert [compose(job).config.grpo[key] for job in expand(["recipe=echo", argument])] == values


def test_texts_and_models_are_swept_without_escapes() -> None:
    found = [compose(job).config for job in expand(["recipe=echo", "model=Qwen/Qwen3-0.6B,tiny"])]
    assert [config.model.path for config in found] == ["Qwen/Qwen3-0.6B", "tiny"]
    found = [compose(job).config for job in expand(["recipe=echo", "envs.echo.prompt='Hello, you',Bye"])]
    assert [config.envs["echo"].prompt for config in found] == ["Hello, you", "Bye"]


@pytest.mark.parametrize("argument", ["seed=interval(0,1)", "model=glob(*)", "seed=range(0,2000)"])
def test_what_is_no_list_of_values_is_refused(argument: str) -> None:
    with pytest.raises(ConfigError):
        expand(["recipe=echo", argument])
