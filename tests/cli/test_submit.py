"""`trl-env submit` as a person types it; Hugging Face Jobs is a stand-in."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.test_space_command import call
from tests.servers.engine import ROOT
from tests.servers.fake_hub import TOKEN, Job, hub_serving
from trl_envs.config.store import load_config

ASKED = ("submit", "recipe=wordle", "job=hf_jobs", "job.flavor=a100-large", "job.timeout=4h")
WHOLE = (*ASKED, "--push-to", "me/agent")


def config_of(command: list[str], folder: Path) -> Path:
    """The config that a job would write, by its own script run without what it starts."""
    script = command[-1].rpartition("sys.exit(")[0]
    subprocess.run([sys.executable, "-c", script], cwd=folder, check=True, timeout=30)
    return folder / "config.yaml"


def test_a_job_brings_its_config_and_its_secrets_by_name(tmp_path: Path) -> None:
    with hub_serving() as hub:
        words = (*WHOLE, "grpo.learning_rate=5e-6", "run_name=first", "--secret", "WANDB_API_KEY", "--with", "wandb")
        code, out, err = call(tmp_path, hub, *words, WANDB_API_KEY="wandb-value")
        assert code == 0, err
    ((_, _, token, body),) = hub.asked("POST", "/api/jobs/me")
    assert token == f"Bearer {TOKEN}"
    assert (body["flavor"], body["timeoutSeconds"], body["labels"]) == ("a100-large", 4 * 3600, {"name": "first"})
    assert body["secrets"] == {"HF_TOKEN": TOKEN, "WANDB_API_KEY": "wandb-value"}
    rest = json.dumps({key: value for key, value in body.items() if key != "secrets"})
    assert TOKEN not in rest and "wandb-value" not in rest and body["environment"] == {}
    assert body["command"][:8] == [
        "uv",
        "run",
        "--no-project",
        "--with",
        "trl-env[vllm]==0.1.0",
        "--with",
        "wandb",
        "python",
    ]
    config = load_config(config_of(body["command"], tmp_path))
    assert (config.recipe, config.grpo["learning_rate"], config.run_name) == ("wordle", 5e-6, "first")
    assert (config.grpo["push_to_hub"], config.grpo["hub_model_id"], config.job.mode) == (True, "me/agent", None)
    assert out.splitlines() == ["step 1", "step 2"]
    assert "job      me/j1: COMPLETED" in err


def test_the_config_that_a_job_gets_can_be_planned_as_it_is(tmp_path: Path) -> None:
    quoted = 'envs.wordle.prompt=He said """guess""" and \\n it is late.'
    code, out, err = call(tmp_path, None, *WHOLE, quoted, "launch=single", "--dry-run", "--json")
    assert code == 0, err
    command = json.loads(out)["command"]
    assert "trl-env==0.1.0" in command
    path = config_of(command, tmp_path)
    assert '"""guess"""' in load_config(path).envs["wordle"].prompt
    code, out, err = call(tmp_path, None, "train", "--config", str(path), "grpo.max_steps=3", "--dry-run")
    assert code == 0, err
    assert "trl_envs.training.worker" in out
    code, _, err = call(tmp_path, None, "train", "--config", str(path), "recipe=catch")
    assert code == 2 and "can't be chosen anew" in err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "there is no such file"),
        ("defaults: [catch]\n", "is a recipe, and no whole config\n\nhint: recipe=mine"),
        ("a: [\n", "can't be read"),
    ],
)
def test_what_is_no_whole_config_is_told_apart(tmp_path: Path, text: str | None, said: str) -> None:
    path = tmp_path / "mine.yaml"
    if text is not None:
        path.write_text(text)
    code, out, err = call(tmp_path, None, "train", "--config", str(path), "--dry-run")
    assert (code, out) == (2, "")
    assert said in err


def test_a_dry_run_shows_the_request_without_a_secret_and_needs_neither_token_nor_hub(tmp_path: Path) -> None:
    with hub_serving() as hub:
        code, out, err = call(tmp_path, hub, *WHOLE, "--secret", "WANDB_API_KEY", "--dry-run", WANDB_API_KEY="w-value")
        assert code == 0, err
        assert "secrets, by name: HF_TOKEN, WANDB_API_KEY" in out and "w-value" not in out
        assert "trl_envs.envs.wordle.WordleEnv" in out
        code, out, _ = call(tmp_path, hub, *WHOLE, "--dry-run", "--json", token=None, HF_TOKEN="")
        assert json.loads(out)["secrets"] == ["HF_TOKEN"]
        assert hub.requests == []


def test_what_is_missing_is_refused_before_the_hub_is_asked(tmp_path: Path) -> None:
    with hub_serving() as hub:
        code, out, err = call(tmp_path, hub, "submit", "recipe=wordle")
    assert (code, out) == (2, "")
    assert err.startswith("error: 4 things can't work")
    assert hub.requests == []


def test_what_only_this_machine_has_is_refused(tmp_path: Path) -> None:
    (tmp_path / "my_env.py").write_text("from trl_envs.envs.wordle import WordleEnv as Mine\n")
    (tmp_path / "weights").mkdir()
    words = ["envs.wordle.environment._target_=my_env.Mine", "model=./weights", "envs.wordle.url=http://127.0.0.1:1"]
    code, _, err = call(tmp_path, None, *WHOLE, *words, "grpo.loss_type=dapoo", "--dry-run")
    assert code == 2
    assert "3 things can't work" in err
    assert "my_env.Mine is a module of this machine" in err and "--with" in err
    assert "is a folder of this machine" in err and "hf upload" in err
    assert "is an address of this machine" in err
    code, _, err = call(tmp_path, None, *WHOLE, "grpo.loss_type=dapoo", "--dry-run")
    assert code == 2 and "grpo.loss_type=dapo?" in err
    code, _, err = call(tmp_path, None, "train", "recipe=wordle", "job=hf_jobs")
    assert code == 2 and "trl-env submit" in err


def test_secrets_that_are_missing_or_written_out_are_refused(tmp_path: Path) -> None:
    with hub_serving() as hub:
        code, _, err = call(tmp_path, hub, *WHOLE, token=None, HF_TOKEN="")
        assert code == 2 and "needs a token" in err and "hf auth login" in err
        code, _, err = call(tmp_path, hub, *WHOLE, "--secret", "NO_SUCH_KEY")
        assert code == 2 and "--secret NO_SUCH_KEY: this shell has no such variable" in err
        code, _, err = call(tmp_path, hub, *WHOLE, "--secret", "KEY=value-of-key")
        assert code == 2 and "the name of an environment variable" in err and "value-of-key" not in err
        words = (*WHOLE, "--secret", "KEY", "envs.wordle.system_prompt=value-of-key")
        code, _, err = call(tmp_path, hub, *words, KEY="value-of-key")
        assert code == 2 and "the value of KEY stands in the config" in err and "value-of-key" not in err
    assert hub.requests == []


def test_the_hubs_refusals_are_passed_on(tmp_path: Path) -> None:
    with hub_serving() as hub:
        hub.refusing = (402, {}, {"error": "Pre-paid credit balance is insufficient"})
        code, _, err = call(tmp_path, hub, *WHOLE)
        assert code == 2 and "Pre-paid credit balance is insufficient" in err and "settings/billing" in err
        hub.refusing = (400, {}, {"error": "Invalid flavor"})
        code, _, err = call(tmp_path, hub, *WHOLE)
        assert code == 2 and "Invalid flavor" in err
    code, _, err = call(tmp_path, None, *WHOLE, HF_ENDPOINT="http://127.0.0.1:9")
    assert code == 3 and "can't be reached" in err


def test_a_job_that_fails_is_followed_to_its_end_and_later_cancelled(tmp_path: Path) -> None:
    with hub_serving() as hub:
        hub.jobs["next"] = Job(lines=["boom"], stages=["SCHEDULING", "ERROR"], message="Job timeout")
        code, out, err = call(tmp_path, hub, *WHOLE)
        assert (code, out) == (1, "boom\n")
        assert "the job me/j1 ended as ERROR: Job timeout" in err
        code, out, _ = call(tmp_path, hub, "submit", "--logs", "me/j1")
        assert (code, out) == (1, "boom\n")
        code, out, _ = call(tmp_path, hub, "submit", "--cancel", "me/j1")
        assert (code, out) == (0, "cancelled me/j1\n")
        assert len(hub.asked("POST", "/api/jobs/me/j1/cancel")) == 1
        code, _, err = call(tmp_path, hub, "submit", "--cancel", "me/none")
        assert code == 2 and "hf jobs ps" in err


def test_ctrl_c_stops_following_and_says_how_to_go_on(tmp_path: Path) -> None:
    with hub_serving() as hub:
        hub.jobs["me/j1"] = Job(stages=["RUNNING"], endless=True)
        variables = {"HF_ENDPOINT": hub.url, "HF_TOKEN": TOKEN, "HF_HUB_OFFLINE": "0", "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-u", "-m", "trl_envs", "submit", "--logs", "me/j1"]
        process = subprocess.Popen(
            command, env={**os.environ, **variables}, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stdout is not None
        assert [process.stdout.readline(), process.stdout.readline()] == ["step 1\n", "step 2\n"]
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
        hub.jobs["me/j1"].endless = False
    assert process.returncode == 130
    assert "trl-env submit --logs me/j1" in err and "--cancel me/j1" in err and "Traceback" not in err
    assert not hub.asked("POST", "/cancel")


def test_help_teaches_by_example_without_the_hubs_library(tmp_path: Path) -> None:
    (tmp_path / "huggingface_hub.py").write_text("raise ImportError('loaded')\n")
    path = f"{tmp_path}{os.pathsep}{ROOT}"
    code, out, err = call(tmp_path, None, "submit", "--help", PYTHONPATH=path)
    assert code == 0, err
    assert "trl-env submit recipe=wordle job=hf_jobs job.flavor=a100-large job.timeout=4h" in out
    code, out, err = call(tmp_path, None, *WHOLE, "--dry-run", PYTHONPATH=path)
    assert code == 0, err
