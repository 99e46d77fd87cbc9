"""What a person types after the command, read as it was meant.

Hydra's grammar for values is kept, but it adds a key only with `+` or `++`, splits text at commas and stumbles over `=`
and `?`. Here every key may be set plainly (a wrong name is found afterwards, by keys.check_keys), and what can only be
text is taken as text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException

from trl_envs.config.keys import GROUPS, is_text
from trl_envs.config.suggest import nearest
from trl_envs.errors import ConfigError

_KEY = re.compile(r"[A-Za-z_][\w.\-]*")
_QUOTED = re.compile(r"""'(\\.|[^'\\])*'|"(\\.|[^"\\])*\"""")


@dataclass(frozen=True)
class Choice:
    """The choice of a config group, such as `recipe=wordle`; `typed` is how a person would write it."""

    group: str
    value: str
    typed: str


@dataclass(frozen=True)
class Setting:
    """A key set to a value, `${...}` in texts unresolved; or, with `delete`, a key taken away."""

    key: str
    typed: str
    value: Any = None
    delete: bool = False


Parsed = Choice | Setting


def parse_override(argument: str) -> Parsed:
    """What one argument says.

    Args:
        argument: `key=value`, `+key=value`, `++key=value` or `~key`, as typed.

    Raises:
        ConfigError: It is no override, or its value has two readings; the hint shows how to write it.
    """
    if argument.startswith("~"):
        return Setting(argument[1:].partition("=")[0], argument, delete=True)
    key, equals, value = argument.lstrip("+").partition("=")
    if not equals:
        raise ConfigError(f"{argument!r} is not an override", _what_was_meant(argument))
    if key.partition(".")[0].partition("/")[0] == "hydra":
        if key.startswith(("hydra/launcher", "hydra.launcher")):
            raise ConfigError(f"{key} says where the jobs of a sweep run", "add -m: trl-env train -m recipe=NAME ...")
        raise ConfigError(f"{key} is Hydra's own setting", "where a run goes is set by output_dir= and run_name=")
    if not _KEY.fullmatch(key):
        raise ConfigError(f"{key!r} in {argument!r} is not a key", "keys look like grpo.learning_rate or envs.NAME.url")
    if key in GROUPS:
        return Choice(key, value, argument)
    return Setting(key, argument, _value(key, value))


def parsed_value(key: str, value: Any) -> Parsed:
    """An override whose value is known already, as one of a sweep's."""
    typed = f"{key}={value}"
    if key in GROUPS:
        return Choice(key, str(value), typed)
    return Setting(key, typed, str(value) if is_text(key) else value)


def _what_was_meant(argument: str) -> str:
    if argument.startswith("-"):
        return f"{argument} is no option of this command; see --help"
    return f"did you mean recipe={argument}? overrides look like key=value, such as grpo.max_steps=20"


def _value(key: str, raw: str) -> Any:
    if raw in ("null", "None"):
        return None
    if is_text(key) and not raw.startswith(("'", '"')):
        return raw
    parsed = _parse_value(key, raw)
    if parsed is None:
        return raw
    if parsed.is_sweep_override():
        raise ConfigError(
            f"{key}={raw}: a comma makes several values",
            f"a list: '{key}=[{raw}]'; one text: \"{key}='{raw}'\"; with -m the values are run one after the other",
        )
    if re.search(r"\bNone\b", _QUOTED.sub("", raw)):
        raise ConfigError(f"{key}={raw} holds a bare None", "write null for nothing, or '\"None\"' for the text")
    return parsed.value()


def _parse_value(key: str, raw: str) -> Override | None:
    """The override as Hydra reads it; None for a value outside of its grammar, which can only be text."""
    try:
        return OverridesParser.create().parse_override(f"{key}={raw}")
    except HydraException as error:
        if raw.startswith(("[", "{", "'", '"', "$")):
            raise ConfigError(
                f"{key}={raw} can't be read: {str(error).splitlines()[0]}",
                f"close brackets and quotes; in a shell, quote the whole: '{key}=...'",
            ) from error
        return None


def check_choice(group: str, value: str, known: Sequence[str]) -> None:
    """Refuses a value of a config group that names nothing.

    Raises:
        ConfigError: With the nearest name and all of them.
    """
    if value not in known:
        names = ", ".join(sorted(known))
        raise ConfigError(
            f"there is no {group} called {value!r}", f"did you mean {group}={nearest(value, known)}? ({group}: {names})"
        )
