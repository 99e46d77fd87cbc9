"""What the installed TRL and transformers accept, read from their source: importing them would load torch."""

from __future__ import annotations

import ast
import importlib.util
from functools import cache
from pathlib import Path

_ENUM_FILES = ("training_args.py", "trainer_utils.py")


@cache
def enum_values(class_name: str) -> tuple[str, ...]:
    """Values of one of transformers' string enums, such as SchedulerType; empty if there is no such enum."""
    for file in _ENUM_FILES:
        for node in _parsed("transformers", file).body:
            if isinstance(node, ast.ClassDef) and node.name == class_name and _is_enum(node):
                return tuple(
                    statement.value.value
                    for statement in node.body
                    if isinstance(statement, ast.Assign)
                    and isinstance(statement.value, ast.Constant)
                    and isinstance(statement.value.value, str)
                )
    return ()


@cache
def compared_values(field: str) -> tuple[str, ...]:
    """Values with which GRPOTrainer compares a field of its arguments, such as `loss_type`, in order of appearance.

    TRL checks these fields nowhere at its start: a value that it compares with none of its own ends the run at the
    first loss, or is taken for something else.
    """
    found: dict[str, None] = {}
    for node in ast.walk(_parsed("trl", "trainer/grpo_trainer.py")):
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Attribute) and node.left.attr == field:
            for other in node.comparators:
                for value in other.elts if isinstance(other, ast.List | ast.Tuple | ast.Set) else [other]:
                    if isinstance(value, ast.Constant) and isinstance(value.value, str):
                        found[value.value] = None
    return tuple(found)


@cache
def reporters() -> tuple[str, ...]:
    """Names that `report_to` may hold."""
    for node in _parsed("transformers", "integrations/integration_utils.py").body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            if names == ["INTEGRATION_TO_CALLBACK"]:
                return tuple(str(key.value) for key in node.value.keys if isinstance(key, ast.Constant))
    return ()


def _is_enum(node: ast.ClassDef) -> bool:
    return any(isinstance(base, ast.Name) and base.id.endswith("Enum") for base in node.bases)


@cache
def _parsed(package: str, file: str) -> ast.Module:
    """A file's syntax tree; an empty one if a version of the package doesn't have it."""
    spec = importlib.util.find_spec(package)
    folders = spec.submodule_search_locations if spec is not None else None
    path = Path(folders[0]) / file if folders else None
    if path is None or not path.is_file():
        return ast.Module(body=[], type_ignores=[])
    return ast.parse(path.read_text(encoding="utf-8"))
