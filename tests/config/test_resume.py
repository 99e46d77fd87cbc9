from __future__ import annotations

from pathlib import Path

import pytest

from trl_envs.config.compose import compose
from trl_envs.config.resume import resumed
from trl_envs.config.schema import LaunchMode
from trl_envs.config.store import to_yaml
from trl_envs.errors import ConfigError


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    config = compose(["recipe=catch", "preset=smoke", "envs.catch.prompt=pay \\${seed}"]).config
    (tmp_path / "config.yaml").write_text(to_yaml(config))
    return tmp_path


def test_a_run_goes_on_with_its_own_config(run_dir: Path) -> None:
    again = resumed(run_dir, [], ["/mine"])
    assert to_yaml(again.config) == (run_dir / "config.yaml").read_text()
    assert again.config.envs["catch"].prompt == "pay ${seed}"
    assert again.import_folders == ("/mine",)


def test_what_may_change_changes(run_dir: Path) -> None:
    changes = ["grpo.max_steps=9", "launch=auto", "envs.catch.url=http://h:1", "envs.catch.rewards.caught.weight=2"]
    config = resumed(run_dir, changes, []).config
    assert config.grpo["max_steps"] == 9
    assert config.launch.mode is LaunchMode.auto
    assert config.envs["catch"].url == "http://h:1"
    assert config.envs["catch"].rewards["caught"]["weight"] == 2


@pytest.mark.parametrize(
    ("override", "key"),
    [
        ("recipe=echo", "recipe"),
        ("preset=full", "preset"),
        ("model=tiny", "model"),
        ("model.path=other", "model"),
        ("seed=3", "seed"),
        ("run_name=x", "run_name"),
        ("envs.catch.episodes=3", "envs.catch.episodes"),
        ("envs.catch.prompt=x", "envs.catch.prompt"),
        ("envs.catch.environment.speed=3", "envs.catch.environment"),
        ("grpo.num_generations=8", "grpo.num_generations"),
        ("~grpo.per_device_train_batch_size", "grpo.per_device_train_batch_size"),
        ("mix.catch=1", "mix"),
    ],
)
def test_what_the_checkpoint_follows_from_is_fixed(run_dir: Path, override: str, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resumed(run_dir, [override], [])
    assert key in caught.value.message
    assert "may change" in caught.value.hint


def test_wrong_names_are_refused_as_ever(run_dir: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"grpo\.lerning_rate"):
        resumed(run_dir, ["grpo.lerning_rate=1"], [])
    with pytest.raises(ConfigError, match="no launch called"):
        resumed(run_dir, ["launch=fast"], [])
    with pytest.raises(ConfigError, match="can't be read"):
        resumed(tmp_path / "nowhere", [], [])
