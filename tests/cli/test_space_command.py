"""`trl-env space`, and runs on Spaces and in containers, as a person types them; the Hub and docker are stand-ins."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.engine import ROOT, Engine
from tests.servers.fake_hub import FORBIDDEN, TOKEN, FakeHub, Space, hub_serving, space_serving


def call(
    folder: Path, hub: FakeHub | None, *arguments: str, token: str | None = TOKEN, **variables: str
) -> tuple[int, str, str]:
    """Runs the command with the stand-in as its Hub."""
    home = {"HF_HOME": str(folder / "hf"), "HF_HUB_OFFLINE": "0", "PYTHONPATH": str(ROOT)}
    asked = {"HF_ENDPOINT": hub.url} if hub else {}
    done = subprocess.run(
        [sys.executable, "-m", "trl_envs", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        env={**os.environ, **home, **asked, **({"HF_TOKEN": token} if token else {}), **variables},
    )
    assert TOKEN not in done.stdout + done.stderr
    return done.returncode, done.stdout, done.stderr


def test_a_copy_is_made_by_one_request_with_room_for_the_run(tmp_path: Path) -> None:
    with hub_serving(openenv__wordle=Space()) as hub:
        code, out, err = call(tmp_path, hub, "space", "duplicate", "recipe=wordle", "--to", "me/wordle")
        assert code == 0, err
        assert "copied openenv/wordle to me/wordle, which takes 72 sessions" in out
        assert "server=space envs.wordle.space=me/wordle" in out
        ((_, _, token, body),) = hub.asked("POST", "")
        assert token == f"Bearer {TOKEN}"
        assert body["repository"] == "me/wordle"
        pairs = {pair["key"]: pair["value"] for pair in body["variables"]}
        assert pairs == {"TEXTARENA_ENV_ID": "Wordle-v0", "MAX_CONCURRENT_ENVS": "72"}
        assert not {"visibility", "hardware"} & set(body)


def test_its_options_reach_the_hub_and_json_tells_the_overrides(tmp_path: Path) -> None:
    words = "space duplicate recipe=multi_env --env catch --to my-team/c --private --hardware cpu-upgrade --sessions 10"
    with hub_serving(openenv__openspiel_env=Space()) as hub:
        code, out, err = call(tmp_path, hub, *words.split(), "--json")
        assert code == 0, err
        ((_, path, _, body),) = hub.asked("POST", "")
        assert path == "/api/spaces/openenv/openspiel_env/duplicate"
        assert (body["visibility"], body["hardware"]) == ("private", "cpu-upgrade")
    made = json.loads(out)
    assert (made["from"], made["to"], made["sessions"]) == ("openenv/openspiel_env", "my-team/c", 10)
    assert made["overrides"] == "envs.catch.server=space envs.catch.space=my-team/c"
    assert made["variables"]["MAX_CONCURRENT_ENVS"] == "12"


@pytest.mark.parametrize(
    ("words", "named", "hint"),
    [
        ("recipe=wordle", "where should the copy go?", "--to OWNER/NAME"),
        ("recipe=wordle --to wordle", "--to wordle is no name of a Space", "--to OWNER/NAME"),
        ("recipe=wordle --to openenv/wordle", "is the Space itself", "another one"),
        ("recipe=multi_env --to me/x", "several Spaces: wordle (openenv/wordle), catch", "--env wordle"),
        ("recipe=wordle --env chess --to me/x", "--env chess: the recipe has wordle", "--env wordle"),
        ("recipe=wordle envs.wordle.space=null --to me/x", "names a Space", "envs.wordle.space=OWNER/NAME"),
        ("recipe=wordle --to me/taken", "there is a Space of that name already", "hf spaces variables add me/taken"),
        ("recipe=wordle envs.wordle.space=no/such --to me/x", "can't be copied", "envs.wordle.space=OWNER/NAME"),
    ],
)
def test_what_cannot_be_copied_is_refused(words: str, named: str, hint: str, tmp_path: Path) -> None:
    with hub_serving(openenv__wordle=Space(), me__taken=Space()) as hub:
        code, out, err = call(tmp_path, hub, "space", "duplicate", *words.split())
        assert (code, out) == (2, "")
        assert named in err.partition("hint:")[0] and hint in err.partition("hint:")[2]
        assert "Traceback" not in err
        assert len(hub.asked("POST", "")) == ("no/such" in words)


def test_a_copy_needs_a_token_that_may_write(tmp_path: Path) -> None:
    words = ("space", "duplicate", "recipe=wordle", "--to", "you/wordle")
    with hub_serving(openenv__wordle=Space()) as hub:
        code, _, err = call(tmp_path, hub, *words, token=None, HF_TOKEN="")
        assert code == 2 and "needs a token" in err and "hf auth login" in err
        assert hub.requests == []
        hub.copying = FORBIDDEN
        code, _, err = call(tmp_path, hub, *words)
        assert code == 2 and "may write to you" in err
        hub.copying = (409, {}, {"error": "You already created this space repo"})
        code, _, err = call(tmp_path, hub, *words)
        assert code == 2 and "there is a Space of that name already" in err


def test_help_teaches_by_example_without_the_hubs_library(tmp_path: Path) -> None:
    (tmp_path / "huggingface_hub.py").write_text("raise ImportError('loaded')\n")
    path = f"{tmp_path}{os.pathsep}{ROOT}"
    for words in (("space", "--help"), ("space", "duplicate", "--help")):
        code, out, err = call(tmp_path, None, *words, PYTHONPATH=path)
        assert code == 0, err
    assert "trl-env space duplicate recipe=wordle --to me/wordle" in out
    code, out, err = call(tmp_path, None, "train", "recipe=wordle", "server=space", "--dry-run", PYTHONPATH=path)
    assert code == 0, err
    assert "# wordle: plays on the Space openenv/wordle; the Hub gives its address" in out
    assert "trl_envs.training.worker" in out and "uvicorn" not in out


def test_a_space_that_is_too_small_is_refused_before_anything_is_tried(tmp_path: Path) -> None:
    with hub_serving(openenv__wordle=Space(variables={"MAX_CONCURRENT_ENVS": "8"})) as hub:
        code, _, err = call(tmp_path, hub, "train", "recipe=wordle", "server=space", "run_name=r")
    assert code == 2
    assert "wordle: 64 sessions needed at once, 8 found" in err
    assert "trl-env space duplicate recipe=wordle --to me/wordle" in err
    assert "ask for fewer: grpo.num_generations=8" in err
    run = tmp_path / "runs" / "r"
    record = json.loads((run / "record.json").read_text())
    assert (record["status"], record["exit_code"]) == ("failed", 2)
    assert not list(run.glob("logs/*"))
    with hub_serving(openenv__wordle=Space(variables={"MAX_CONCURRENT_ENVS": "8"})) as hub:
        code, out, _ = call(tmp_path, hub, "check", "recipe=wordle", "server=space", "--json")
    assert code == 2
    assert [finding["key"] for finding in json.loads(out)["findings"]] == ["envs.wordle.space"]


@pytest.mark.slow
def test_a_run_on_ones_own_private_space_that_slept(tmp_path: Path) -> None:
    with space_serving(private=True) as served:
        space = Space(served.url, private=True, stages=["SLEEPING", "SLEEPING", "RUNNING"])
        with hub_serving(me__catch=space) as hub:
            words = ("train", "recipe=catch", "preset=smoke", "server=space", "envs.catch.space=me/catch", "run_name=r")
            code, _, err = call(tmp_path, hub, *words)
    assert code == 0, err
    assert "me/catch sleeps; waking it" in err
    assert f"8 sessions needed, 8 found at {served.url}" in err
    assert served.tokens("/ws") == served.tokens("/health") == {f"Bearer {TOKEN}"}
    plan = json.loads((tmp_path / "runs" / "r" / "plan.json").read_text())
    assert plan["environments"]["catch"]["urls"] == [served.url]
    for file in (tmp_path / "runs").rglob("*"):
        assert not file.is_file() or TOKEN.encode() not in file.read_bytes(), file


@pytest.mark.slow
def test_a_run_in_a_container(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    words = ("train", "recipe=catch", "preset=smoke", "server=docker", "envs.catch.image=game", "run_name=r")
    code, _, err = call(tmp_path, None, *words, HF_HUB_OFFLINE="1", **engine.variables)
    assert code == 0, err
    assert "container up" in (tmp_path / "runs" / "r" / "logs" / "server-catch.log").read_text()
    engine.assert_nothing_is_left()
    assert len(engine.removed()) == 1
