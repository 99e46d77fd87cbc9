"""What the command loads before it has anything to do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("torch", "trl", "transformers", "openenv", "gradio", "datasets", "peft", "pyspiel", "textarena")


def loaded_by(*arguments: str) -> set[str]:
    """Top-level modules that `trl-env ARGUMENTS` has loaded when it ends."""
    code = (
        "import sys\n"
        "from trl_envs.cli.app import main\n"
        f"sys.argv = ['trl-env', *{list(arguments)!r}]\n"
        "try:\n    main()\n"
        "finally:\n    print('LOADED', *sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("LOADED "), done.stderr
    return set(last.split()[1:])


def test_help_loads_neither_hydra_nor_anything_heavy() -> None:
    assert not loaded_by("--help") & {*HEAVY, "hydra", "omegaconf", "rich"}
    for command in ("train", "eval", "submit"):
        assert not loaded_by(command, "--help") & {*HEAVY, "hydra", "omegaconf", "huggingface_hub", "submitit"}


@pytest.mark.parametrize(
    "arguments",
    [
        ("list",),
        ("show", "recipe=catch"),
        ("train", "recipe=catch", "preset=smoke", "--dry-run"),
        ("runs",),
        ("report", "nowhere"),
        ("rescore", "nowhere"),
        ("train", "recipe=catchh"),
        ("sft", "recipe=catch", "--data", "nothing"),
        ("collect", "recipe=catch", "--seed", "1000003", "--out", "nothing"),
    ],
)
def test_the_launcher_never_loads_anything_heavy(arguments: tuple[str, ...]) -> None:
    assert not loaded_by(*arguments) & set(HEAVY)


@pytest.mark.parametrize("module", ["rollout.session", "envs.catch.server", "envs.wordle.environment"])
def test_sessions_and_servers_leave_openenvs_web_interface_out_and_others_can_have_it(module: str) -> None:
    code = (
        f"import sys, trl_envs.{module}\n"
        "print('gradio' in sys.modules)\n"
        "import openenv.core.env_server.web_interface as web\n"
        "print(web.gr.Blocks.__name__)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["False", "Blocks"]


def test_the_module_runs_like_the_command(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "trl_envs", "--version"], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.startswith("trl-env ")
