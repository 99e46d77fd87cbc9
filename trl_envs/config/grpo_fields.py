"""The fields of the installed GRPOConfig, read from its source: importing it would load torch (3 s, 450 MiB)."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from trl_envs.errors import ConfigError

# Base class first, so that a subclass's own default wins.
SHARED_SOURCES = (
    ("transformers", "training_args.py", "TrainingArguments"),
    ("trl", "trainer/base_config.py", "_BaseConfig"),
)

# Fields that the launcher sets itself, and the key with which a person steers them.
OWNED = {
    "output_dir": "output_dir=FOLDER",
    "run_name": "run_name=NAME",
    "seed": "seed=N",
    "use_cpu": "launch=single|colocate|server",
    "use_vllm": "launch=single|colocate|server",
    "vllm_mode": "launch=single|colocate|server",
    "vllm_server_base_url": "launch=server",
    "vllm_server_host": "launch=server",
    "vllm_server_port": "launch=server",
    "vllm_server_timeout": "launch.ready_timeout_s=SECONDS",
    "vllm_group_port": "launch=server",
    "reward_weights": "envs.ENV.rewards.TERM.weight=X",
    "resume_from_checkpoint": "trl-env train --resume RUN_DIR",
    "report_to": "logging.report_to=[NAME]",
    "hub_token": "the environment variable HF_TOKEN (a token in a config file would leak)",
}


@dataclass(frozen=True)
class GrpoField:
    """One field of GRPOConfig, or of another of TRL's configs.

    Args:
        name: Its name, as under `grpo.`.
        annotation: Its type as written in the source.
        default: Its default, where that is a literal; else None.
    """

    name: str
    annotation: str
    default: Any


@cache
def grpo_fields() -> dict[str, GrpoField]:
    """Fields of the installed GRPOConfig by name.

    Raises:
        ConfigError: TRL or transformers isn't installed.
    """
    return read_fields((*SHARED_SOURCES, ("trl", "trainer/grpo_config.py", "GRPOConfig")))


def read_fields(sources: Sequence[tuple[str, str, str]]) -> dict[str, GrpoField]:
    """Fields of a class and its bases by name.

    Args:
        sources: Package, file and class, base class first.

    Raises:
        ConfigError: A package isn't installed.
    """
    fields: dict[str, GrpoField] = {}
    for package, file, class_name in sources:
        for node in _class_body(package, file, class_name):
            field = _field(node)
            if field is not None:
                fields[field.name] = field
    return fields


def grpo_value(grpo: dict[str, Any], name: str) -> Any:
    """What the field will be in a run: the value set under `grpo`, else GRPOConfig's default."""
    return grpo[name] if name in grpo else grpo_fields()[name].default


def _class_body(package: str, file: str, class_name: str) -> list[ast.stmt]:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(f"the package {package} isn't installed", "pip install trl-env")
    path = Path(spec.submodule_search_locations[0]) / file
    if not path.is_file():
        return []
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef) and node.name == class_name:
            return node.body
    return []


def _field(node: ast.stmt) -> GrpoField | None:
    """A dataclass field that can be passed to the constructor, if the statement is one."""
    if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
        return None
    annotation = ast.unparse(node.annotation)
    if annotation.startswith("ClassVar"):
        return None
    default: ast.expr | None = node.value
    if isinstance(default, ast.Call):
        keywords = {keyword.arg: keyword.value for keyword in default.keywords}
        if isinstance(keywords.get("init"), ast.Constant) and keywords["init"].value is False:  # type: ignore[attr-defined]
            return None
        default = keywords.get("default")
    return GrpoField(node.target.id, annotation, _literal(default))


def _literal(node: ast.expr | None) -> Any:
    try:
        return ast.literal_eval(node) if node is not None else None
    except ValueError:
        return None
