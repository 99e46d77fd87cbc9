"""Composition as a person sees it: what wins over what, and which values arrive as they were meant."""

from __future__ import annotations

from pathlib import Path

import pytest
from omegaconf import OmegaConf

from trl_envs import paths
from trl_envs.config.compose import compose
from trl_envs.config.schema import LaunchMode
from trl_envs.config.store import load_config, to_plain, to_yaml
from trl_envs.errors import ConfigError

RECIPES = sorted(path.stem for path in paths.recipes_dir().glob("*.yaml"))


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write_recipe(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.yaml").write_text(text)


def value_of(config: object, key: str) -> object:
    node = to_plain(config)  # type: ignore[arg-type]
    for part in key.split("."):
        node = node[part]
    return node


@pytest.mark.parametrize(
    ("override", "key", "value"),
    [
        ("grpo.learning_rate=1e-6", "grpo.learning_rate", 1e-6),
        ("grpo.learning_rate=0.5E-3", "grpo.learning_rate", 5e-4),
        ("+grpo.max_steps=7", "grpo.max_steps", 7),
        ("++grpo.max_steps=7", "grpo.max_steps", 7),
        ("grpo.bf16=false", "grpo.bf16", False),
        ("grpo.chat_template_kwargs={enable_thinking: true}", "grpo.chat_template_kwargs", {"enable_thinking": True}),
        ("grpo.generation_kwargs.stop=[a,b]", "grpo.generation_kwargs.stop", ["a", "b"]),
        ("envs.catch.prompt=Hello, world", "envs.catch.prompt", "Hello, world"),
        ("envs.catch.prompt='Hello, world'", "envs.catch.prompt", "Hello, world"),
        ("envs.catch.prompt=it's {a} = [b] (c) \\ ?", "envs.catch.prompt", "it's {a} = [b] (c) \\ ?"),
        ("envs.catch.prompt=costs \\${x}", "envs.catch.prompt", "costs ${x}"),
        ("envs.catch.url=http://127.0.0.1:8001", "envs.catch.url", "http://127.0.0.1:8001"),
        ("envs.catch.url=http://h/x?y=1&z=a=b", "envs.catch.url", "http://h/x?y=1&z=a=b"),
        ("envs.catch.url=[http://a:1,http://b:2]", "envs.catch.url", ["http://a:1", "http://b:2"]),
        ("run_name=007", "run_name", "007"),
        ("run_name=1e-6", "run_name", "1e-6"),
        ("run_name=a,b", "run_name", "a,b"),
        ("run_name=None", "run_name", None),
        ("run_name=null", "run_name", None),
        ("run_name='\"None\"'", "run_name", '"None"'),
        ("server.port=None", "server.port", None),
        ("model.lora.rank=8", "model.lora.rank", 8),
        ("model.lora={rank: 4}", "model.lora", {"rank": 4, "alpha": 32, "target_modules": "all-linear"}),
        ("mix.catch=1", "mix", {"catch": 1.0}),
        ("launch.gpus=[0,1]", "launch.gpus", [0, 1]),
        ("launch.mode=single", "launch.mode", "single"),
        ("seed=3", "envs.catch.seed", 3),
        ("seed=${eval.seed}", "seed", 1_000_003),
        ("envs.catch.rewards.caught.weight=2", "envs.catch.rewards.caught.weight", 2),
    ],
)
def test_a_value_arrives_as_it_was_meant(override: str, key: str, value: object) -> None:
    assert value_of(compose(["recipe=catch", override]).config, key) == value


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["grpo.lerning_rate=1"], ["grpo.lerning_rate", "did you mean grpo.learning_rate?"]),
        (["+grpo.lerning_rate=1"], ["did you mean grpo.learning_rate?"]),
        (["++envs.catch.epsodes=3"], ["envs.catch.epsodes", "did you mean envs.catch.episodes?"]),
        (["envs.catch.epsodes=3"], ["did you mean envs.catch.episodes?"]),
        (["envs.cach.episodes=3"], ["envs.cach", "did you mean envs.catch?"]),
        (["+foo=1"], ["there is no key foo", "did you mean "]),
        (["learning_rate=1"], ["did you mean grpo.learning_rate?"]),
        (["rollout.concurency=1"], ["did you mean rollout.concurrency?"]),
        (["model.lora.ranks=1"], ["did you mean model.lora.rank?"]),
        (["mix.cach=1"], ["mix.cach", "did you mean catch?"]),
        (["~seed"], ["seed can't be removed"]),
        (["~grpo.max_steps"], ["the recipe doesn't set it", "nothing to take out"]),
        (["~grpo.learning_rte"], ["did you mean ~grpo.learning_rate?"]),
        (["recipe=catchh"], ["no recipe called 'catchh'", "did you mean catch?"]),
        (["preset=smok"], ["did you mean preset=smoke?"]),
        (["launch=singel"], ["did you mean launch=single?"]),
        (["server=locl"], ["did you mean server=local?"]),
        (["model=tinny"], ["did you mean model=tiny?"]),
        (["model=./not/there"], ["./not/there isn't there"]),
        (["grpo.vllm_mode=server"], ["grpo.vllm_mode is set by the launcher", "launch="]),
        (["grpo.output_dir=x"], ["output_dir=FOLDER"]),
        (["grpo.reward_weights=[1]"], ["envs.ENV.rewards.TERM.weight"]),
        (["grpo.hub_token=x"], ["HF_TOKEN"]),
        (["seed=abc"], ["seed: Value 'abc'", "a whole number"]),
        (["seed=null"], ["seed takes a whole number"]),
        (["envs.catch.episodes=1.5"], ["a whole number"]),
        (["envs.catch.episodes=0"], ["envs.catch.episodes=0"]),
        (["envs.catch.prompt="], ["envs.catch.prompt is empty"]),
        (["launch.mode=foo"], ["one of auto, single, colocate, server"]),
        (["logging.report_to=wandb"], ["logging.report_to=[a,b]"]),
        (["rollout.concurrency=1,2"], ["a comma makes several values", "[1,2]", "-m"]),
        (["grpo.generation_kwargs={stop: [None]}"], ["bare None"]),
        (["grpo.generation_kwargs=[1,2"], ["can't be read"]),
        (["envs.catch=3"], ["envs.catch"]),
        (["grpo=3"], ["grpo takes keys of its own"]),
        (["envs.catch.rewards.caught=null"], ["envs.catch.rewards.caught"]),
        (["envs.catch.rewards.cauht.weight=2"], ["has no _target_", "did you mean caught?"]),
        (["envs.catch.rewards.caught.weight=0"], ["no reward term of any weight"]),
        (["~envs.catch.rewards.caught"], ["no reward term of any weight"]),
        (["envs.catch.variables.HF_TOKEN=x"], ["secret", "export HF_TOKEN"]),
        (["seed=${nope}"], ["Interpolation key 'nope' not found"]),
        (["hydra.run.dir=x"], ["output_dir= and run_name="]),
        (["catch"], ["'catch' is not an override", "recipe=catch"]),
        (["--fast"], ["no option"]),
        (["preset=smoke", "grpo.save_steps=1"], ["grpo.save_steps=1 does nothing", "add grpo.save_strategy=steps"]),
        (["~grpo.nope"], ["~grpo.nope", "did you mean ~grpo."]),
        (["a b=1"], ["is not a key"]),
    ],
)
def test_what_is_not_meant_is_refused_with_a_way_on(arguments: list[str], named: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        compose(["recipe=catch", *arguments])
    assert caught.value.exit_code == 2
    assert caught.value.hint
    for part in named:
        assert part in str(caught.value)


def test_two_unknown_keys_are_named_together() -> None:
    with pytest.raises(ConfigError) as caught:
        compose(["recipe=catch", "grpo.lerning_rate=1", "rollout.concurency=1"])
    assert "grpo.learning_rate" in str(caught.value)
    assert "rollout.concurrency" in str(caught.value)


def test_without_a_recipe_all_are_named() -> None:
    with pytest.raises(ConfigError, match="no recipe was named") as caught:
        compose([])
    assert "catch, echo, multi_env, sudoku, wordle" in caught.value.hint
    with pytest.raises(ConfigError, match="there is no key recpe") as caught:
        compose(["recpe=catch"])
    assert "recipe" in caught.value.hint


@pytest.mark.parametrize("recipe", RECIPES)
def test_smoke_wins_over_every_recipe_and_the_command_line_over_smoke(recipe: str) -> None:
    preset = OmegaConf.load(paths.configs_dir() / "preset" / "smoke.yaml")
    config = compose([f"recipe={recipe}", "preset=smoke"]).config
    assert (config.preset, config.model.path, config.launch.mode) == ("smoke", "tiny", LaunchMode.single)
    for name, value in OmegaConf.to_container(preset.grpo).items():  # type: ignore[union-attr]
        assert config.grpo[name] == value, name
    config = compose([f"recipe={recipe}", "grpo.max_steps=3", "preset=smoke", "model=a/b", "launch=auto"]).config
    assert (config.grpo["max_steps"], config.model.path, config.launch.mode) == (3, "a/b", LaunchMode.auto)


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("preset", ["full", "smoke"])
def test_the_printed_config_reads_back_equal(recipe: str, preset: str, tmp_path: Path) -> None:
    config = compose([f"recipe={recipe}", f"preset={preset}", "grpo.learning_rate=1e-6", "run_name=1e-6"]).config
    (tmp_path / "config.yaml").write_text(to_yaml(config))
    assert load_config(tmp_path / "config.yaml") == config
    assert OmegaConf.to_container(OmegaConf.load(tmp_path / "config.yaml")) == to_plain(config)


def test_a_text_that_looks_like_an_interpolation_survives_writing_and_reading(tmp_path: Path) -> None:
    config = compose(["recipe=catch", "envs.catch.prompt=pay \\${seed} now"]).config
    (tmp_path / "config.yaml").write_text(to_yaml(config))
    assert load_config(tmp_path / "config.yaml").envs["catch"].prompt == "pay ${seed} now"


MINE = """
defaults: [catch, _self_]
description: mine
envs:
  catch: {episodes: 12}
grpo: {learning_rate: 1e-6}
"""


def test_a_recipe_of_ones_own_inherits_a_shipped_one(tmp_path: Path) -> None:
    write_recipe(tmp_path / "recipes", "mine", MINE)
    composed = compose(["recipe=mine"])
    config = composed.config
    assert config.recipe == "mine"
    assert config.envs["catch"].episodes == 12
    assert config.grpo["learning_rate"] == 1e-6
    assert config.grpo["num_generations"] == 8
    assert config.model.path == "Qwen/Qwen2.5-0.5B-Instruct"
    assert composed.import_folders == (str(tmp_path), str(tmp_path / "recipes"))


def test_a_recipe_of_another_folder_and_a_model_named_in_it(tmp_path: Path) -> None:
    text = "defaults:\n  - catch\n  - override /model: Qwen/Qwen3-4B\n  - _self_\n"
    write_recipe(tmp_path / "elsewhere", "other", text)
    assert compose(["recipe=other"], [tmp_path / "elsewhere"]).config.model.path == "Qwen/Qwen3-4B"
    with pytest.raises(ConfigError, match="no recipe called 'other'"):
        compose(["recipe=other"])


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("defaults: [catchh, _self_]\n", ["inherits 'catchh'", "did you mean catch?"]),
        ("defaults: [bad, _self_]\n", ["in a circle: bad -> bad"]),
        ("defaults: [catch, _self_]\nenvs: {catch: {epsodes: 1}}\n", ["epsodes", "envs.catch.episodes"]),
        ("defaults: [catch, _self_]\ngrpo: {lerning_rate: 1}\n", ["grpo.learning_rate"]),
        ("defaults: [catch, _self_]\nseed: abc\n", ["seed", "abc"]),
        ("description: nothing\n", ["no environment"]),
        ("envs: {my-env: {environment: {_target_: a.b}}}\n", ["my-env"]),
        ("- a list\n", ["not a mapping"]),
        ("a: [\n", ["can't be read"]),
        ("defaults:\n  - catch\n  - override /launch: fast\n", ["fast"]),
    ],
)
def test_a_broken_recipe_file_is_explained(tmp_path: Path, text: str, named: list[str]) -> None:
    write_recipe(tmp_path / "recipes", "bad", text)
    with pytest.raises(ConfigError) as caught:
        compose(["recipe=bad"])
    for part in named:
        assert part in str(caught.value)


def test_two_recipes_of_one_name_are_refused_unless_they_are_the_same(tmp_path: Path) -> None:
    shipped = (paths.recipes_dir() / "catch.yaml").read_text()
    write_recipe(tmp_path / "recipes", "catch", shipped)
    assert compose(["recipe=catch"]).config.recipe == "catch"
    write_recipe(tmp_path / "recipes", "catch", MINE)
    with pytest.raises(ConfigError, match="two recipes are called catch"):
        compose(["recipe=catch"])
    assert compose(["recipe=echo"]).config.recipe == "echo"


def test_a_broken_file_keeps_no_other_recipe_from_running(tmp_path: Path) -> None:
    write_recipe(tmp_path / "recipes", "soup", "- leek\n- potatoes\n")
    assert compose(["recipe=echo"]).config.recipe == "echo"
    with pytest.raises(ConfigError, match=r"soup\.yaml holds a list"):
        compose(["recipe=soup"])
    write_recipe(tmp_path / "recipes", "stew", "defaults: [soup, _self_]\n")
    with pytest.raises(ConfigError, match=r"soup\.yaml holds a list"):
        compose(["recipe=stew"])


@pytest.mark.parametrize("folder", ["weights", "with space", "a,b"])
def test_a_model_folder_is_taken_by_its_path(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir()
    assert compose(["recipe=catch", f"model=./{folder}"]).config.model.path == str(tmp_path / folder)
    assert compose(["recipe=catch", f"model={tmp_path / folder}"]).config.model.path == str(tmp_path / folder)
