"""Whether a value fits the annotation of its GRPOConfig field, which GRPOConfig itself never asks."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from trl_envs.config.grpo_fields import GrpoField
from trl_envs.preflight.installed_source import enum_values

_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "a text",
    "list": "a list",
    "dict": "a mapping",
    "None": "null",
}
# Fields that take more than their annotation says: scale_rewards was a bool once, and GRPOConfig still translates it.
_TAKES_BOOL = ("scale_rewards",)


def fits(field: GrpoField, value: Any) -> bool:
    """Whether the value is of a type that the field's annotation names; what the annotation can't tell fits."""
    if isinstance(value, bool) and field.name in _TAKES_BOOL:
        return True
    return any(_is_a(kind, value) for kind in _kinds(field))


def wanted(field: GrpoField) -> str:
    """What the field takes, in words."""
    return " or ".join(dict.fromkeys(_WORDS.get(kind, "a text") for kind in _kinds(field)))


def enum_of(field: GrpoField) -> tuple[str, ...]:
    """Values of the enum in the field's annotation; empty if it names none."""
    return next((values for name in _names(field) if (values := enum_values(name))), ())


def _kinds(field: GrpoField) -> list[str]:
    """Names out of `_WORDS`, or `Any` for a type that isn't checked."""
    return ["str" if enum_values(name) else name if name in _WORDS else "Any" for name in _names(field)]


def _names(field: GrpoField) -> list[str]:
    return list(_parts(ast.parse(field.annotation, mode="eval").body))


def _parts(node: ast.expr) -> Iterator[str]:
    """The union's members: `int | list[float] | None` gives int, list, None; `Literal[False]` gives bool."""
    if isinstance(node, ast.BinOp):
        yield from _parts(node.left)
        yield from _parts(node.right)
    elif isinstance(node, ast.Constant):
        yield "None" if node.value is None else "Any"
    elif isinstance(node, ast.Subscript):
        name = ast.unparse(node.value)
        literals = [constant.value for constant in ast.walk(node.slice) if isinstance(constant, ast.Constant)]
        yield from [type(literal).__name__ for literal in literals] if name == "Literal" else [name]
    else:
        yield ast.unparse(node)


def _is_a(kind: str, value: Any) -> bool:
    if kind == "Any":
        return True
    if kind == "None":
        return value is None
    if isinstance(value, bool):
        return kind == "bool"
    types: dict[str, type | tuple[type, ...]] = {
        "int": int,
        "float": (int, float),
        "str": str,
        "list": list,
        "dict": dict,
    }
    return kind in types and isinstance(value, types[kind])
