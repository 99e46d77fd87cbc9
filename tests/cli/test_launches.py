"""`trl-env train --dry-run` on a machine with GPUs, which a stand-in nvidia-smi and a vLLM without content pretend."""

from __future__ import annotations

import io
import json
import re
import shlex
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from tests.whole_runs import run
from trl_envs import launch
from trl_envs.cli.app import app
from trl_envs.cli.display import TrainDisplay
from trl_envs.config.compose import compose
from trl_envs.errors import PreflightError

ROWS = ["0, GPU-aaaa1111, NVIDIA A100-SXM4-80GB, 81920, 8.0", "1, GPU-bbbb2222, NVIDIA A100-SXM4-80GB, 81920, 8.0"]


def pretend(folder: Path, monkeypatch: pytest.MonkeyPatch, gpus: int, *, vllm: bool = True) -> None:
    program = folder / "bin" / "nvidia-smi"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\ncat <<'END'\n" + "\n".join(ROWS[:gpus]) + "\nEND\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if not vllm:
        installed = launch.installed_versions
        monkeypatch.setattr(launch, "installed_versions", lambda names: {**installed(names), "vllm": None})
        return
    metadata = folder / "site" / "vllm-0.29.0.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True)
    metadata.write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.29.0\n")
    monkeypatch.syspath_prepend(str(folder / "site"))


def dry_run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["train", "recipe=wordle", "--dry-run", *arguments])
    return result.exit_code, result.stdout, result.stderr or str(result.exception)


def test_a_launch_with_vllm_can_be_looked_at_where_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(tmp_path, monkeypatch, gpus=2, vllm=False)
    code, out, err = dry_run("launch=server")
    assert code == 0, err
    assert " serve openenv/Qwen3-1.7B-Wordle-SFT " in out
    assert "note: vLLM isn't installed here; this is the plan with 0.29.0 (pip install" in err
    code, out, err = dry_run("launch=auto")
    assert code == 0 and "note:" not in err
    assert "# launch: single on cuda" in out
    composed = compose(["recipe=wordle", "launch=server"])
    with pytest.raises(PreflightError, match="launch=server needs vLLM, which isn't installed"):
        launch.train(composed, TrainDisplay(Console(file=io.StringIO())))


def test_two_gpus_give_the_recipe_with_two_terminals_in_one_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(tmp_path, monkeypatch, gpus=2)
    code, out, err = dry_run("launch=server")
    assert code == 0, err
    assert "# launch: server on cuda (asked for: vLLM on GPU 0, trainer on GPU 1)" in out
    commands = [line for line in out.splitlines() if line and not line.startswith("#")]
    [server] = [line for line in commands if " serve " in line]
    pattern = (
        r"CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=0 VLLM_SERVER_DEV_MODE=1 "
        r"\S*vllm serve openenv/Qwen3-1\.7B-Wordle-SFT --host 127\.0\.0\.1 --port (\d+) "
        r"--weight-transfer-config '\{\"backend\": \"nccl\"\}' --logprobs-mode processed_logprobs "
        r"--max-logprobs -1 --max-model-len (\d+)"
    )
    found = re.fullmatch(pattern, server)
    assert found, server
    assert int(found[2]) > 2 * 4096
    [trainer] = [shlex.split(line) for line in commands if " trl_envs.training.worker " in line]
    assert {"CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES=1", "VLLM_HOST_IP=127.0.0.1"} < set(trainer)
    assert f"vllm_mode=server vllm_server_base_url=http://127.0.0.1:{found[1]} " in out
    assert re.search(rf"vllm_group_port=(?!{found[1]}\b)\d+", out)


def test_the_same_plan_as_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(tmp_path, monkeypatch, gpus=2)
    code, out, err = dry_run("launch=server", "--json")
    assert code == 0, err
    plan = json.loads(out)
    engine = plan["engine"]
    assert (plan["mode"], engine["model"], engine["world_size"]) == ("server", "openenv/Qwen3-1.7B-Wordle-SFT", 1)
    assert engine["process"]["variables"]["CUDA_VISIBLE_DEVICES"] == "0"
    assert plan["trainer"]["variables"]["CUDA_VISIBLE_DEVICES"] == "1"
    assert plan["grpo"]["vllm_server_base_url"] == engine["url"]
    assert plan["grpo"]["vllm_group_port"] == engine["group_port"] != engine["process"]["port"]
    assert list(plan["commands"]) == ["server-wordle", "vllm", "trainer"]
    assert " serve openenv/Qwen3-1.7B-Wordle-SFT " in plan["commands"]["vllm"]


def test_two_gpus_are_split_without_being_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(tmp_path, monkeypatch, gpus=2)
    code, out, err = dry_run()
    assert code == 0, err
    assert "server on cuda (2 GPUs (NVIDIA A100-SXM4-80GB) and vLLM 0.29.0: vLLM on GPU 0, trainer on GPU 1)" in out


def test_the_shells_choice_of_gpus_is_handed_on_in_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(tmp_path, monkeypatch, gpus=2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-bbbb,GPU-aaaa")
    code, out, err = dry_run("launch=server", "--json")
    assert code == 0, err
    plan = json.loads(out)
    assert plan["engine"]["process"]["variables"]["CUDA_VISIBLE_DEVICES"] == "GPU-bbbb"
    assert plan["trainer"]["variables"]["CUDA_VISIBLE_DEVICES"] == "GPU-aaaa"


def test_one_gpu_is_too_few_for_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(tmp_path, monkeypatch, gpus=1)
    monkeypatch.setattr("tests.whole_runs.ROOTS", (str(tmp_path / "site"),))
    code, out, err = run(tmp_path, "recipe=wordle", "launch=server", "--dry-run")
    assert (code, out) == (2, "")
    assert "launch=server needs a GPU for vLLM beside the trainer's 1, and 1 GPU(s) are visible" in err
    assert "use launch=colocate" in err
