"""The wheel, as somebody else installs it: built, put into a fresh environment, used far from this folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.whole_runs import MINE, MY_ENV

REPOSITORY = Path(__file__).parent.parent
pytestmark = pytest.mark.slow


def call(*command: str | Path, cwd: Path) -> str:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, timeout=300, check=False, env=env
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    call(sys.executable, "-m", "build", "--quiet", "--no-isolation", "--outdir", folder, REPOSITORY, cwd=REPOSITORY)
    return folder


@pytest.fixture(scope="module")
def installed(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`trl-env` of a fresh environment that holds the wheel; its dependencies are those of this one."""
    folder = tmp_path_factory.mktemp("fresh")
    call(sys.executable, "-m", "venv", folder, cwd=folder)
    [wheel] = dist.glob("*.whl")
    call(folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-deps", wheel, cwd=folder)
    # A plain path: an editable install of this checkout in the outer environment isn't followed from there.
    [site] = folder.glob("lib/python*/site-packages")
    (site / "outer.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return folder / "bin" / "trl-env"


def test_wheel_and_sdist_hold_configs_recipes_and_the_tiny_agent(dist: Path) -> None:
    [wheel] = dist.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        "trl_envs/py.typed",
        "trl_envs/configs/train.yaml",
        "trl_envs/configs/preset/smoke.yaml",
        "trl_envs/recipes/catch.yaml",
        "trl_envs/agent/tiny/model/model.safetensors",
        "trl_envs/agent/tiny/model/tokenizer.json",
        "trl_envs/report/template/report.html",
    }
    assert wanted <= names
    assert not any(name.startswith(("tests/", "configs/", "recipes/")) for name in names)
    [sdist] = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        inner = {name.partition("/")[2] for name in archive.getnames()}
    assert {"configs/train.yaml", "recipes/catch.yaml", "trl_envs/paths.py", "LICENSE", "README.md"} <= inner


def test_recipes_are_listed_from_anywhere(installed: Path) -> None:
    rows = json.loads(call(installed, "list", "--json", cwd=Path("/")))
    assert {"catch", "echo"} <= {row["name"] for row in rows}
    assert str(installed.parent.parent) in rows[0]["path"]


def test_a_recipe_of_ones_own_trains_in_an_otherwise_empty_folder(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "mine.yaml").write_text(MINE)
    (tmp_path / "my_env.py").write_text(MY_ENV)
    record = json.loads(call(installed, "train", "recipe=mine", "preset=smoke", "--json", cwd=tmp_path))
    assert (record["status"], record["global_step"]) == ("finished", 2)
    assert {"rewards/catch.caught/mean", "rewards/catch.stillness/mean"} <= record["final_metrics"].keys()
