"""Sweeps through hydra-submitit-launcher: real jobs on this machine, and Slurm as a stand-in."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.test_space_command import call
from tests.servers.engine import ROOT

pytest.importorskip("submitit", reason="the extra slurm isn't installed")
LOCAL = ("hydra/launcher=submitit_local", "hydra.launcher.timeout_min=10")
SMOKE = ("train", "-m", "recipe=catch", "preset=smoke")


def processes_below(folder: Path) -> list[str]:
    listed = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if str(folder) in line]


@pytest.mark.slow
def test_all_jobs_run_on_this_machine_and_are_gathered(tmp_path: Path) -> None:
    words = ("grpo.learning_rate=1e-6,1e-5", "grpo.max_steps=1,0", "run_name=s", *LOCAL, "--json")
    code, out, err = call(tmp_path, None, *SMOKE, *words, HF_HUB_OFFLINE="1")
    assert code == 1, err
    outcomes = {outcome["run_name"]: outcome for outcome in json.loads(out)}
    assert {name: outcome["exit_code"] for name, outcome in outcomes.items()} == {
        "s-1": 0,
        "s-2": 2,
        "s-3": 0,
        "s-4": 2,
    }
    assert outcomes["s-3"]["record"]["global_step"] == 1
    assert "grpo.max_steps=0" in outcomes["s-2"]["message"]
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {".submitit", "s-1", "s-3"}
    assert "job 1 of 4: grpo.learning_rate=1e-06 grpo.max_steps=1" in err
    assert processes_below(tmp_path) == []


@pytest.mark.slow
def test_ctrl_c_cancels_the_jobs_and_leaves_no_process(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "trl_envs", *SMOKE, "seed=1,2", "grpo.max_steps=500", "run_name=s", *LOCAL]
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, cwd=tmp_path, env=variables, text=True, stderr=subprocess.PIPE)
    give_up_at_s = time.monotonic() + 180
    while not (tmp_path / "runs" / "s-1" / "metrics.jsonl").exists():
        assert process.poll() is None and time.monotonic() < give_up_at_s
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=90)
    assert process.returncode == 130
    assert "exit 130: stopped by Ctrl-C" in err
    assert json.loads((tmp_path / "runs" / "s-1" / "record.json").read_text())["status"] == "interrupted"
    give_up_at_s = time.monotonic() + 10
    while processes_below(tmp_path) and time.monotonic() < give_up_at_s:
        time.sleep(0.2)
    assert processes_below(tmp_path) == []


@pytest.mark.slow
def test_slurm_gets_one_array_with_the_settings(tmp_path: Path) -> None:
    """sbatch takes the script and sacct says that the jobs failed: nothing ever ran."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in {
        "srun": "exit 0",
        "sbatch": f"cp \"$1\" {tmp_path}/script; echo 'Submitted batch job 7'",
        "sacct": "echo 'JobID|State|NodeList'; echo '7_0|NODE_FAIL|n1'; echo '7_1|NODE_FAIL|n1'",
        "scancel": "exit 0",
    }.items():
        (programs / name).write_text(f"#!{shutil.which('sh')}\n{text}\n")
        (programs / name).chmod(0o755)
    words = ("seed=1,2", "run_name=s", "hydra/launcher=submitit_slurm", "hydra.launcher.partition=gpu")
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    code, _, err = call(tmp_path, None, *SMOKE, *words, "hydra.launcher.gpus_per_node=1", PATH=path)
    assert code == 1, err
    script = (tmp_path / "script").read_text()
    for line in ("--partition=gpu", "--gpus-per-node=1", "--array=0-1%", "--job-name=s", "--time=60"):
        assert f"#SBATCH {line}" in script, script
    assert "s-1 ended: exit 1: the job ended as NODE_FAIL" in err
    config = (tmp_path / "runs" / ".submitit" / "s-2.yaml").read_text()
    assert "seed: 2" in config and "run_name: s-2" in config
