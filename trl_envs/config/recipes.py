"""Which recipes there are: the shipped ones, those in ./recipes, and those in --recipe-dir.

Names and texts are read with PyYAML alone, which is quick; numbers only ever with OmegaConf, because PyYAML takes 1e-6
for a text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import yaml

from trl_envs import paths
from trl_envs.config.suggest import did_you_mean
from trl_envs.errors import ConfigError

if TYPE_CHECKING:
    from omegaconf import DictConfig

# The loader in C reads a recipe in a tenth of the time, where PyYAML was built with it.
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Recipe:
    """One recipe file.

    Args:
        name: Its stem, as in `recipe=NAME`.
        path: The file.
        shipped: Whether it came with trl-env.
        texts: Its content as PyYAML reads it: for names and texts, not for numbers.
        problem: Why it can't be used; a file nobody asked for must not keep the others from running.
    """

    name: str
    path: Path
    shipped: bool
    texts: dict[str, Any]
    problem: ConfigError | None = None

    @property
    def description(self) -> str:
        """The recipe's own line about itself; empty if it inherits it."""
        return str(self.texts.get("description") or "")

    @property
    def parents(self) -> list[str]:
        """Names of the recipes it inherits, in order."""
        return [entry for entry in self._defaults() if isinstance(entry, str) and entry != "_self_"]

    @property
    def models(self) -> list[str]:
        """Models that its defaults list names."""
        entries = [entry for entry in self._defaults() if isinstance(entry, dict)]
        return [str(v) for entry in entries for k, v in entry.items() if k.split()[-1].lstrip("/") == "model"]

    def _defaults(self) -> list[Any]:
        found = self.texts.get("defaults")
        return found if isinstance(found, list) else []

    def load(self) -> DictConfig:
        """The content, interpolations unresolved.

        Raises:
            ConfigError: It is YAML, and nothing that OmegaConf takes, such as a broken interpolation.
        """
        from omegaconf import OmegaConf
        from omegaconf.errors import OmegaConfBaseException

        try:
            return cast("DictConfig", OmegaConf.load(self.path))
        except (yaml.YAMLError, OmegaConfBaseException, OSError) as error:
            raise ConfigError(f"the recipe {self.path} can't be read: {error}", "mend the file") from error


def find_recipes(recipe_dirs: Sequence[Path] = ()) -> dict[str, Recipe]:
    """All recipes by name.

    Args:
        recipe_dirs: Folders besides the shipped recipes and ./recipes.

    Raises:
        ConfigError: A folder of `recipe_dirs` isn't there.
    """
    found: dict[str, Recipe] = {}
    for folder in _folders(recipe_dirs):
        for path in sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")]):
            _add(found, path, shipped=folder == paths.recipes_dir())
    return found


def import_folders(recipe_dirs: Sequence[Path] = ()) -> list[str]:
    """Folders from which a recipe's `_target_` may be imported: the current one and those of the user's recipes."""
    own = [str(folder) for folder in _folders(recipe_dirs) if folder != paths.recipes_dir()]
    return list(dict.fromkeys([str(Path.cwd()), *own]))


def _folders(recipe_dirs: Sequence[Path]) -> list[Path]:
    for folder in recipe_dirs:
        if not folder.is_dir():
            raise ConfigError(f"--recipe-dir {folder} is not a folder", "name a folder that holds recipe YAML files")
    local = Path("recipes")
    folders = [paths.recipes_dir(), *([local] if local.is_dir() else []), *recipe_dirs]
    return list(dict.fromkeys(folder.resolve() for folder in folders))


def _add(found: dict[str, Recipe], path: Path, *, shipped: bool) -> None:
    other = found.get(path.stem)
    if other is not None:
        if other.path.read_bytes() == path.read_bytes():
            return
        problem = ConfigError(
            f"two recipes are called {path.stem}: {other.path} and {path}",
            f"rename one of the files; a recipe can inherit the other with `defaults: [{path.stem}, _self_]`",
        )
        found[path.stem] = replace(other, problem=problem)
        return
    try:
        found[path.stem] = Recipe(path.stem, path, shipped, _texts(path))
    except ConfigError as error:
        found[path.stem] = Recipe(path.stem, path, shipped, {}, error)


def _texts(path: Path) -> dict[str, Any]:
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        raise ConfigError(f"the recipe {path} can't be read: {error}", "mend the file's YAML") from error
    if not isinstance(content, dict):
        raise ConfigError(f"the recipe {path} holds a {type(content).__name__}, not a mapping of keys", "see recipes/")
    return content


def recipe_named(name: str, recipes: dict[str, Recipe]) -> Recipe:
    """The recipe of that name.

    Raises:
        ConfigError: There is none (the hint names the nearest), or it can't be used.
    """
    if name not in recipes:
        raise ConfigError(f"there is no recipe called {name!r}", did_you_mean(name, recipes) + known(recipes))
    recipe = recipes[name]
    if recipe.problem is not None:
        raise recipe.problem
    return recipe


def known(recipes: dict[str, Recipe]) -> str:
    """The names of all recipes, as the end of a hint."""
    return f" (recipes: {', '.join(sorted(recipes))}; a recipe of your own goes to ./recipes/NAME.yaml)"
