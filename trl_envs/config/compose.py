"""From a recipe name and overrides to one checked config: the only place that runs Hydra."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from trl_envs import paths
from trl_envs.config.keys import check_keys, nearest_key
from trl_envs.config.overrides import Choice, Parsed, Setting, check_choice, parse_override
from trl_envs.config.recipes import Recipe, find_recipes, import_folders, known, recipe_named
from trl_envs.config.schema import EnvConfig, TrainConfig
from trl_envs.config.store import to_config, to_plain
from trl_envs.config.suggest import did_you_mean, nearest
from trl_envs.errors import ConfigError

# Numbers of steps that count only where their strategy is to do it.
_STRATEGIES = {"save_steps": "save_strategy", "eval_steps": "eval_strategy", "logging_steps": "logging_strategy"}
_OWNER_NAME = re.compile(r"[\w.-]+/[\w.-]+")


@dataclass(frozen=True)
class Composed:
    """A run as asked for.

    Args:
        config: All values, interpolations resolved.
        overrides: The command line's overrides as typed.
        import_folders: Folders from which `_target_`s may be imported besides the installed packages.
    """

    config: TrainConfig
    overrides: tuple[str, ...]
    import_folders: tuple[str, ...]


def compose(arguments: Sequence[str | Parsed], recipe_dirs: Sequence[Path] = ()) -> Composed:
    """Composes and checks a config.

    Args:
        arguments: Overrides, as typed or parsed; one of them is `recipe=NAME`.
        recipe_dirs: Folders of recipes besides the shipped ones and ./recipes.

    Raises:
        ConfigError: Whatever is wrong with a name, a value or a recipe file.
    """
    recipes = find_recipes(recipe_dirs)
    parsed = [parse_override(item) if isinstance(item, str) else item for item in arguments]
    choices = [item for item in parsed if isinstance(item, Choice)]
    settings = [item for item in parsed if isinstance(item, Setting)]
    chosen = _chosen_recipe(choices, settings, recipes)
    _register(recipes, _lineage(chosen, recipes))
    composed = _compose_groups([_checked(choice) for choice in choices])
    config = checked_config(apply_settings(composed, settings))
    return Composed(config, tuple(item.typed for item in parsed), tuple(import_folders(recipe_dirs)))


def checked_config(config: DictConfig) -> TrainConfig:
    """The typed config of a composed one.

    Raises:
        ConfigError: A key that doesn't exist, a value of the wrong type, or something that a run can't do without.
    """
    plain = _resolved(config)
    check_keys(plain)
    typed = to_config(plain)
    _check_complete(typed)
    return typed


def _chosen_recipe(choices: Sequence[Choice], settings: Sequence[Setting], recipes: dict[str, Recipe]) -> Recipe:
    names = [choice.value for choice in choices if choice.group == "recipe"]
    if not names:
        strays = [s.key for s in settings if s.key.partition(".")[0] not in TrainConfig.__dataclass_fields__]
        if strays:
            raise ConfigError(f"there is no key {strays[0]}", f"did you mean {nearest_key(strays[0])}?")
        raise ConfigError("no recipe was named", "add recipe=NAME" + known(recipes))
    return recipe_named(names[-1], recipes)


def _lineage(recipe: Recipe, recipes: dict[str, Recipe], below: tuple[str, ...] = ()) -> list[Recipe]:
    """The recipe and all that it inherits."""
    if recipe.name in below:
        raise ConfigError(f"recipes inherit in a circle: {' -> '.join([*below, recipe.name])}", f"mend {recipe.path}")
    found = [recipe]
    for parent in recipe.parents:
        if parent not in recipes:
            raise ConfigError(
                f"{recipe.path} inherits {parent!r}, which is no recipe", did_you_mean(parent, recipes) + known(recipes)
            )
        found += _lineage(recipe_named(parent, recipes), recipes, (*below, recipe.name))
    return found


def _register(recipes: dict[str, Recipe], lineage: Sequence[Recipe]) -> None:
    """Puts the schema and the recipes into Hydra's store.

    Other recipes of the store are dropped: it is global, and a recipe of another folder must not be found.
    """
    store = ConfigStore.instance()
    store.repo.pop("recipe", None)
    # The defaults without their types: Hydra's errors on types name no key, and a typed node that is null takes no keys
    # below it. check_keys and to_config hold the composed config against the schema.
    defaults = OmegaConf.to_container(OmegaConf.structured(TrainConfig), enum_to_str=True)
    store.store(name="schema", node=defaults)
    for recipe in {recipe.name: recipe for recipe in lineage}.values():
        node = recipe.load()
        for entry in node.get("defaults", []):
            for key in entry if isinstance(entry, DictConfig) else ():
                if str(key).split()[-1].lstrip("/") == "model":
                    entry[key] = _model_choice(str(entry[key]), where=str(recipe.path))
        node["recipe"] = recipe.name
        store.store(group="recipe", name=recipe.name, node=node, package="_global_")


def _checked(choice: Choice) -> str:
    """The choice in Hydra's grammar; `model=` may be any model and gets an entry of its own."""
    if choice.group == "model":
        return f"model={_model_choice(choice.value, where='model=')}"
    if choice.group != "recipe":
        check_choice(choice.group, choice.value, _choices(choice.group))
    return f"{choice.group}={choice.value}"


def _choices(group: str) -> list[str]:
    return [path.stem for path in (paths.configs_dir() / group).glob("*.yaml")]


def _model_choice(value: str, *, where: str) -> str:
    """The name under which Hydra finds a model: one of configs/model, or an entry made for a path or owner/name."""
    value = value.strip("'\"")
    if value in _choices("model"):
        return value
    folder = Path(value).expanduser()
    if folder.is_dir():
        path = str(folder.resolve())
    elif _OWNER_NAME.fullmatch(value) and not value.startswith("."):
        path = value
    elif "/" in value:
        raise ConfigError(
            f"{where}: the folder {value} isn't there", "name a model folder, a run directory, or owner/name"
        )
    else:
        check_choice("model", value, _choices("model"))
        return value
    alias = "path-" + re.sub(r"[^\w-]", "-", path)
    ConfigStore.instance().store(group="model", name=alias, node={"path": path}, package="model")
    return alias


def _compose_groups(choices: list[str]) -> DictConfig:
    """Runs Hydra over recipe, preset, model, server and launch; interpolations are left as they are."""
    GlobalHydra.instance().clear()
    try:
        with hydra.initialize_config_dir(str(paths.configs_dir()), version_base="1.3"):
            config = hydra.compose("train", overrides=choices)
        return cast("DictConfig", OmegaConf.create(OmegaConf.to_container(config)))
    except (HydraException, OmegaConfBaseException) as error:
        raise _recipe_error(error) from error


def _recipe_error(error: BaseException) -> ConfigError:
    """What is wrong with a recipe file or a config group, in one line."""
    cause: BaseException = error
    while isinstance(cause.__cause__, HydraException | OmegaConfBaseException):
        cause = cause.__cause__
    return ConfigError(
        f"the recipe can't be composed: {str(cause).splitlines()[0]}",
        "mend its defaults list: `defaults: [PARENT, override /model: NAME, _self_]`, names as in configs/",
    )


def apply_settings(config: DictConfig, settings: Sequence[Setting]) -> DictConfig:
    """Sets and deletes keys of a composed config, in place.

    Raises:
        ConfigError: A key to delete that isn't there.
    """
    for setting in settings:
        if setting.delete:
            parent, _, leaf = setting.key.rpartition(".")
            node = OmegaConf.select(config, parent) if parent else config
            if not isinstance(node, DictConfig) or leaf not in node:
                near = nearest_key(setting.key)
                if near == setting.key:
                    raise ConfigError(f"~{setting.key}: the recipe doesn't set it", "there is nothing to take out")
                there = [f"~{parent}.{key!s}" for key in node] if isinstance(node, DictConfig) and parent else []
                hint = did_you_mean(f"~{setting.key}", there or [f"~{near}"])
                raise ConfigError(f"~{setting.key}: there is no such key", hint)
            del node[leaf]
        else:
            OmegaConf.update(config, setting.key, setting.value, force_add=True)
    for setting in settings:
        _refuse_unheeded(config, setting)
    return config


def _refuse_unheeded(config: DictConfig, setting: Setting) -> None:
    """Refuses how often something is to be done where a preset or the recipe says that it is never done."""
    section, _, leaf = setting.key.rpartition(".")
    strategy = _STRATEGIES.get(leaf)
    if section not in ("grpo", "sft") or strategy is None or setting.value is None:
        return
    key = f"{section}.{strategy}"
    if OmegaConf.select(config, key) == "no":
        raise ConfigError(f"{setting.typed} does nothing while {key} is no", f"add {key}=steps")


def _resolved(config: DictConfig) -> dict[str, Any]:
    missing = [key for key in TrainConfig.__dataclass_fields__ if key not in config]
    if missing:
        raise ConfigError(f"the key {missing[0]} can't be removed", f"set it to another value: {missing[0]}=...")
    try:
        return to_plain(config)
    except OmegaConfBaseException as error:
        key = getattr(error, "full_key", "")
        raise ConfigError(
            f"{key}: {str(error).splitlines()[0]}",
            "name a key that exists, as in ${seed} or ${oc.env:NAME}; a literal ${ is written \\${",
        ) from error


def _check_complete(config: TrainConfig) -> None:
    """What a run can't do without: an environment with its class, prompt, episodes and at least one reward term."""
    problems: list[tuple[str, str]] = []
    if not config.envs:
        problems.append(("the recipe has no environment (envs)", "see recipes/echo.yaml for the shortest one"))
    for name, env in config.envs.items():
        problems += _missing(name, env, [other for other in config.envs if other != name])
    for name in (config.mix or {}).keys() - config.envs.keys():
        problems.append((f"mix.{name} names no environment of the recipe", did_you_mean(f"mix.{name}", config.envs)))
    if problems:
        raise ConfigError("\n".join(p for p, _ in problems), "\n      ".join(dict.fromkeys(h for _, h in problems)))


def _missing(name: str, env: EnvConfig, others: Sequence[str]) -> list[tuple[str, str]]:
    if not re.fullmatch(r"[A-Za-z]\w*", name):
        return [(f"{name!r} is no name for an environment", "use letters, digits and underscores")]
    if "_target_" not in env.environment:
        meant = f"did you mean envs.{nearest(name, others)}?" if others else "name it: module.Class"
        return [(f"envs.{name} has no environment._target_, the class to play", meant)]
    problems = []
    if not env.prompt.strip():
        problems.append((f"envs.{name}.prompt is empty", f"say what the task is: envs.{name}.prompt='...'"))
    if env.episodes < 1:
        problems.append((f"envs.{name}.episodes={env.episodes}: nothing to play", f"set envs.{name}.episodes=100"))
    if not any(term.get("weight", 1.0) for term in env.rewards.values()):
        problems.append((f"envs.{name} has no reward term of any weight", f"add one to envs.{name}.rewards"))
    for term, node in env.rewards.items():
        if "_target_" not in node:
            near = did_you_mean(term, [other for other in env.rewards if other != term])
            problems.append((f"envs.{name}.rewards.{term} has no _target_, the function that scores", near))
    return problems
