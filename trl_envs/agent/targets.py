"""Classes and functions that a recipe names by `_target_`, found and bound to the settings beside it.

Not hydra.utils.instantiate: it would call a reward term, and hand `weight` to it.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from trl_envs.config.suggest import did_you_mean
from trl_envs.errors import ConfigError


def load_target(path: Any, key: str) -> Callable[..., Any]:
    """The class or function at a dotted path.

    Args:
        path: `package.module.Name`.
        key: The config key that named it, for the error.

    Raises:
        ConfigError: There is no such module or name; an error inside the module keeps its own traceback.
    """
    if not isinstance(path, str) or "." not in path:
        raise ConfigError(f"{key}={path!r} is no dotted path", f"write {key}: module.Name")
    module_name, _, name = path.rpartition(".")
    module = _module(module_name, path, key)
    target = getattr(module, name, None)
    if target is None:
        public = [other for other in vars(module) if not other.startswith("_")]
        raise ConfigError(f"{key}={path}: {module_name} has no {name}", did_you_mean(f"{module_name}.{name}", public))
    if not callable(target):
        raise ConfigError(f"{key}={path} is a {type(target).__name__}, not a class or function", "name what is called")
    return target  # type: ignore[no-any-return]


def _module(module_name: str, path: str, key: str) -> Any:
    try:
        return importlib.import_module(module_name)
    except SystemExit as error:
        raise ConfigError(
            f"{key}={path}: {module_name} ends the program when it is imported (SystemExit: {error})",
            'put what is for the command line under: if __name__ == "__main__":',
        ) from error
    except ModuleNotFoundError as error:
        # A module that the user's module lacks is the user's own traceback to see.
        missing = error.name or ""
        if module_name != missing and not module_name.startswith(f"{missing}."):
            raise
        raise ConfigError(
            f"{key}={path}: there is no module {missing}",
            "modules are looked for in the current directory, beside the recipe, and among installed packages",
        ) from error


def find_beside(target: type, module: str, name: str) -> Callable[..., Any] | None:
    """What a game says about itself beside its environment class: a function of a module in the same package.

    Args:
        target: The environment class; what lies beside a class that it inherits from counts too.
        module: Name of the module.
        name: Name of the function.
    """
    for owner in target.__mro__:
        for package in (owner.__module__, owner.__module__.rpartition(".")[0]):
            if package and _has_module(f"{package}.{module}"):
                found = getattr(importlib.import_module(f"{package}.{module}"), name, None)
                if callable(found):
                    return found  # type: ignore[no-any-return]
    return None


def _has_module(path: str) -> bool:
    try:
        return importlib.util.find_spec(path) is not None
    except (ModuleNotFoundError, ValueError):
        # A module that is no package has no submodules; __main__ has no specification.
        return False


def parameters_of(target: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Parameters by name, `self` left out."""
    return dict(inspect.signature(target).parameters)


def check_settings(
    target: Callable[..., Any], settings: Mapping[str, Any], key: str, *, given: tuple[str, ...] = ()
) -> None:
    """Refuses settings that the target doesn't take, and a target that lacks one it needs.

    Args:
        target: A class or function.
        settings: Values that the recipe gives, by name.
        key: The config key under which they stand.
        given: Names of parameters that the launcher fills in.

    Raises:
        ConfigError: With the nearest name, or the name that is missing.
    """
    parameters = parameters_of(target)
    kinds = inspect.Parameter
    named = [n for n, p in parameters.items() if p.kind in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)]
    takes_any = inspect.isclass(target) and any(p.kind is kinds.VAR_KEYWORD for p in parameters.values())
    free = [name for name in named if name not in given]
    name_of = getattr(target, "__name__", repr(target))
    for name in settings:
        if name not in free and not takes_any:
            raise ConfigError(
                f"{key}.{name}: {name_of} takes no {name}", did_you_mean(f"{key}.{name}", [f"{key}.{n}" for n in free])
            )
    for name in free:
        if parameters[name].default is kinds.empty and name not in settings:
            raise ConfigError(f"{key}: {name_of} needs {name}", f"set {key}.{name}=...")
