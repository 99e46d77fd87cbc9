"""Where the files that ship with the package lie, in a checkout and in an installed wheel alike."""

from __future__ import annotations

import os
import sys
from pathlib import Path

PACKAGE_DIR = Path(__file__).resolve().parent


def _shipped(folder: str) -> Path:
    """A folder of YAML files: beside this file in a wheel, one level up in a checkout or an editable install."""
    for parent in (PACKAGE_DIR, PACKAGE_DIR.parent):
        if (parent / folder).is_dir():
            return parent / folder
    raise FileNotFoundError(f"{folder}/ is missing from the installation of trl-env in {PACKAGE_DIR}")


def configs_dir() -> Path:
    """The Hydra groups."""
    return _shipped("configs")


def recipes_dir() -> Path:
    """The shipped recipes, one YAML file each."""
    return _shipped("recipes")


def tiny_model_dir() -> Path:
    """Weights, tokenizer and chat template of the tiny agent (`model=tiny`)."""
    return PACKAGE_DIR / "agent" / "tiny" / "model"


def make_importable(folders: list[str]) -> None:
    """Puts folders in front of `sys.path` and of PYTHONPATH, so that this process and its children import from them.

    A recipe names classes such as `my_env.MyEnv`; its folder and the current directory are searched for them.
    """
    for folder in reversed(folders):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    known = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    os.environ["PYTHONPATH"] = os.pathsep.join([f for f in folders if f not in known] + known)
