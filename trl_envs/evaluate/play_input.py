"""From a line that a person types to a tool call."""

from __future__ import annotations

import inspect
import json
import shlex
import types
from collections.abc import Callable, Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from trl_envs.agent.policies import Move

_TRUE, _FALSE = ("true", "yes", "1"), ("false", "no", "0")
_NAMES = {int: "a whole number", float: "a number", bool: "true or false"}


def parse_move(line: str, tools: Mapping[str, Callable[..., Any]]) -> Move:
    """The tool and its arguments that a line asks for.

    `place 1 2 9`, `place row=1 column=2 number=9`, and without the tool's name where there is only one. A tool of a
    single text takes the rest of the line as it is.

    Args:
        line: As typed; not blank.
        tools: What may be called.

    Raises:
        ValueError: Saying what is wrong with it and what the tools take.
    """
    name, _, rest = line.strip().partition(" ")
    if name not in tools:
        if len(tools) > 1 or not tools:
            raise ValueError(f"there is no tool {name!r}; try one of:\n{usage(tools)}")
        name, rest = next(iter(tools)), line.strip()
    tool = tools[name]
    parameters = list(inspect.signature(tool).parameters.values())
    hints = _hints(tool)
    if len(parameters) == 1 and hints.get(parameters[0].name) is str and not rest.startswith(f"{parameters[0].name}="):
        given = {parameters[0].name: rest.strip()} if rest.strip() else {}
    else:
        given = _given(rest, [parameter.name for parameter in parameters])
    unknown = [key for key in given if key not in {parameter.name for parameter in parameters}]
    missing = [p.name for p in parameters if p.default is inspect.Parameter.empty and p.name not in given]
    if unknown or missing:
        what = f"takes no {unknown[0]}" if unknown else f"needs {' and '.join(missing)}"
        raise ValueError(f"{name} {what}:\n{usage({name: tool})}")
    return name, {key: _value(key, text, hints.get(key, str)) for key, text in given.items()}


def usage(tools: Mapping[str, Callable[..., Any]]) -> str:
    """A line a tool: how it is called, and the first line of what it does."""
    lines = []
    for name, tool in tools.items():
        words = " ".join([name, *(f"<{parameter}>" for parameter in inspect.signature(tool).parameters)])
        summary = (inspect.getdoc(tool) or "").partition("\n")[0]
        lines.append(f"  {words:<28} {summary}".rstrip())
    return "\n".join(lines)


def _hints(tool: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(inspect.unwrap(tool))
    except (NameError, TypeError):
        # An annotation that can't be resolved here: what is typed then goes in as text.
        return {}


def _given(rest: str, names: list[str]) -> dict[str, str]:
    """Words by the name of their parameter, those without a name in order."""
    try:
        words = shlex.split(rest)
    except ValueError as error:
        raise ValueError(f"a quotation mark is missing in {rest!r}") from error
    given, free = {}, list(names)
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key.isidentifier():
            if not free:
                raise ValueError(f"{word!r} is one argument too many: {' '.join(names) or 'none'} is what it takes")
            key, value = free[0], word
        given[key] = value
        free = [name for name in free if name != key]
    return given


def _value(name: str, text: str, hint: Any) -> Any:
    """A text as the type that a tool asks for.

    Raises:
        ValueError: It can't be read as that.
    """
    if get_origin(hint) in (Union, types.UnionType):
        if text.lower() in ("null", "none") and type(None) in get_args(hint):
            return None
        hint = next(kind for kind in get_args(hint) if kind is not type(None))
    if hint is str or hint is Any or get_origin(hint) is Literal:
        return text
    try:
        if hint is bool:
            return {**dict.fromkeys(_TRUE, True), **dict.fromkeys(_FALSE, False)}[text.lower()]
        return hint(text) if hint in (int, float) else json.loads(text)
    except (KeyError, ValueError) as error:
        raise ValueError(f"{name} must be {_NAMES.get(hint, 'JSON, such as [1, 2]')}, and {text!r} isn't") from error
