"""The commands that only read: list, show, runs, and what every one of them does with an error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from omegaconf import OmegaConf

REPOSITORY = Path(__file__).parent.parent.parent


def call(folder: Path, *arguments: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "trl_envs", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "COLUMNS": "120"},
    )
    return done.returncode, done.stdout, done.stderr


def test_list_names_shipped_recipes_and_ones_own(tmp_path: Path) -> None:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "mine.yaml").write_text("defaults: [catch, _self_]\n")
    code, out, _ = call(tmp_path, "list")
    assert code == 0
    lines = {line.split(maxsplit=1)[0]: line.split(maxsplit=1)[1] for line in out.splitlines()}
    assert lines["catch"].startswith("Catch a falling ball")
    assert lines["mine"].startswith("like catch")
    assert str(tmp_path / "recipes" / "mine.yaml") in out
    rows = json.loads(call(tmp_path, "list", "--json")[1])
    assert {row["name"]: row["shipped"] for row in rows} == {
        **dict.fromkeys(("catch", "echo", "multi_env", "sudoku", "wordle"), True),
        "mine": False,
    }


def test_show_prints_yaml_that_reads_back_equal_to_its_json(tmp_path: Path) -> None:
    code, out, _ = call(tmp_path, "show", "recipe=catch", "grpo.learning_rate=1e-6")
    assert code == 0
    shown = OmegaConf.to_container(OmegaConf.create(out))
    assert isinstance(shown, dict)
    assert shown["grpo"]["learning_rate"] == 1e-6
    assert shown == json.loads(call(tmp_path, "show", "recipe=catch", "grpo.learning_rate=1e-6", "--json")[1])


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("show", "recipe=catch", "grpo.lerning_rate=1"), "grpo.learning_rate"),
        (("show", "recipe=catch", "+grpo.lerning_rate=1"), "grpo.learning_rate"),
        (("show", "recipe=catch", "++envs.catch.epsodes=3"), "envs.catch.episodes"),
        (("show", "recipe=catch", "+foo=1"), "did you mean"),
        (("show", "recipe=catchh"), "catch"),
        (("show", "recipe=catch", "grpo.vllm_mode=server"), "launch"),
        (("train", "recipe=catch", "preset=smoke", "--dryrun"), "--dryrun"),
        (("show", "recipe=catch", "--recipe-dir", "nowhere"), "nowhere"),
        (("runs", "nowhere"), "nowhere"),
        (("runs", __file__), "is a file"),
        (("show", "catch"), "did you mean recipe=catch?"),
    ],
)
def test_errors_go_to_stderr_with_a_hint_and_exit_2(tmp_path: Path, arguments: tuple[str, ...], named: str) -> None:
    code, out, err = call(tmp_path, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert "\n\nhint: " in err
    assert named in err
    assert "Traceback" not in err


def test_a_deletion_and_a_double_plus_pass_the_command_line(tmp_path: Path) -> None:
    code, out, _ = call(tmp_path, "show", "recipe=catch", "~grpo.learning_rate", "++grpo.max_steps=4")
    assert code == 0
    assert "learning_rate" not in out
    assert "max_steps: 4" in out


def test_dry_run_prints_commands_and_makes_nothing(tmp_path: Path) -> None:
    code, out, _ = call(tmp_path, "train", "recipe=catch", "preset=smoke", "--dry-run")
    assert code == 0
    assert "-m uvicorn trl_envs.envs.catch.server:app" in out
    assert "-m trl_envs.training.worker" in out
    code, out, _ = call(tmp_path, "train", "recipe=catch", "preset=smoke", "--dry-run", "--json")
    assert json.loads(out)["batch"]["generation_batch"] == 8
    assert list(tmp_path.iterdir()) == []


def test_runs_without_any_says_so(tmp_path: Path) -> None:
    assert call(tmp_path, "runs") == (0, "", "no runs in runs/ yet\n")
    assert call(tmp_path, "runs", "--json")[1].strip() == "[]"


def test_help_teaches_by_example(tmp_path: Path) -> None:
    for command in ("list", "show", "train", "eval", "serve", "runs"):
        code, out, _ = call(tmp_path, command, "--help")
        assert code == 0
        assert f"trl-env {command}" in out
