"""Plans for machines that need not be at hand."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trl_envs.config.compose import compose
from trl_envs.errors import PreflightError
from trl_envs.machine import Gpu
from trl_envs.plan.build import build_plan, build_servers
from trl_envs.plan.facts import MachineFacts
from trl_envs.plan.launch_plan import LaunchPlan

A100 = Gpu(index=0, name="A100", memory_gib=80.0, compute_capability=8.0)


def facts(**changes: Any) -> MachineFacts:
    values: dict[str, Any] = {"gpus": [], "mps": False, "vllm": None, "free_port": lambda host: 8765, "variables": {}}
    values |= {"docker_problem": lambda: "", "unique_id": lambda: "1f00"}
    return MachineFacts(**{**values, **changes})


def plan(*overrides: str, **changes: Any) -> LaunchPlan:
    composed = compose(["recipe=catch", *overrides])
    return build_plan(composed.config, facts(**changes), Path("/runs/one"), composed.import_folders)


@pytest.mark.parametrize(
    ("overrides", "changes", "mode", "device"),
    [
        ((), {}, "single", "cpu"),
        ((), {"mps": True}, "single", "mps"),
        ((), {"gpus": [A100]}, "single", "cuda"),
        ((), {"gpus": [A100], "vllm": "0.29.0"}, "colocate", "cuda"),
        (("launch=single",), {"gpus": [A100], "vllm": "0.29.0"}, "single", "cuda"),
        (("preset=smoke",), {"gpus": [A100], "vllm": "0.29.0"}, "single", "cuda"),
        (("launch=colocate",), {"gpus": [A100], "vllm": "0.29.0"}, "colocate", "cuda"),
    ],
)
def test_the_mode_follows_from_config_and_machine(
    overrides: tuple[str, ...], changes: dict[str, Any], mode: str, device: str
) -> None:
    planned = plan(*overrides, **changes)
    assert (planned.mode, planned.device) == (mode, device)
    assert planned.reason


@pytest.mark.parametrize(
    ("overrides", "changes", "message", "hint"),
    [
        (("launch=colocate",), {}, "no GPU is visible", "launch=single"),
        (("launch=colocate",), {"gpus": [A100]}, "needs vLLM", "trl-env[vllm]"),
        (("launch=server",), {"gpus": [A100], "vllm": "0.29.0"}, "launch=server", "launch=colocate"),
        (("launch.processes=0",), {}, "launch.processes=0", "launch.processes=1"),
        (("launch.processes=2",), {"gpus": [A100]}, "1 GPU(s) are visible", "launch.processes=1"),
        (("launch.processes=2",), {"mps": True}, "one Metal device", "launch.processes=1"),
        (("server=url",), {}, "envs.catch.url isn't set", "envs.catch.url=http"),
        (("server=space", "envs.catch.space=null"), {}, "names no Space", "envs.catch.space=OWNER/NAME"),
        (("server=space", "envs.catch.space=catch"), {}, "no name of a Space", "envs.catch.url"),
        (("server=space", "envs.catch.space=https://me-catch.hf.space"), {}, "no name of a Space", "envs.catch.url"),
        (("envs.catch.server=docker", "envs.catch.image=null"), {}, "no container image", "envs.catch.image="),
        (("server=docker", "envs.catch.image=--privileged"), {}, "no container image", "envs.catch.image="),
        (("server=docker",), {"docker_problem": lambda: "no daemon"}, "no daemon", "server=local"),
        (("server=docker", "server.port=70000"), {}, "server.port=70000", "server.port=8001"),
        (("envs.catch.url=localhost:8001",), {}, "no http(s) URL", "http://HOST:PORT"),
        (("envs.catch.url=[]",), {}, "empty list", "http://HOST:PORT"),
        (("envs.catch.url=3",), {}, "no http(s) URL", "http://HOST:PORT"),
        (("envs.catch.url=http://me:secret@host",), {}, "password", "server.token_env"),
        (("envs.catch.app=null",), {}, "no embedded server", "envs.catch.url"),
        (("envs.catch.app=my_server",), {}, "isn't module:attribute", "envs.catch.app="),
        (("server.port=70000",), {}, "server.port=70000", "server.port=8001"),
        (("server.port=9001",), {"port_is_free": lambda host, port: port == 0}, "listens", "server.port=null"),
        (("server.host=192.0.2.1",), {}, "server.host=192.0.2.1", "server.host=127.0.0.1"),
    ],
)
def test_what_cannot_work_here_is_refused(
    overrides: tuple[str, ...], changes: dict[str, Any], message: str, hint: str
) -> None:
    with pytest.raises(PreflightError) as caught:
        plan(*overrides, **changes)
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert "secret" not in str(caught.value)


def test_the_embedded_server_has_room_for_the_generation_batch() -> None:
    planned = plan("preset=smoke", "server.port=9001")
    server = planned.environments["catch"]
    assert server.process is not None
    assert server.urls == ("http://127.0.0.1:9001",)
    assert server.sessions == planned.batch.generation_batch == 8
    assert int(server.process.variables["MAX_CONCURRENT_ENVS"]) > 8
    assert server.process.ready is not None
    assert [spec.name for spec in planned.processes()] == ["server-catch", "trainer"]


def test_a_url_is_used_as_it_is_whatever_the_server_mode() -> None:
    planned = plan("server=docker", "envs.catch.url=[http://a:1/,http://b:2]")
    assert planned.environments["catch"].urls == ("http://a:1", "http://b:2")
    assert planned.environments["catch"].process is None
    assert [spec.name for spec in planned.processes()] == ["trainer"]


def test_a_container_is_a_process_on_loopback_whose_name_the_plan_knows() -> None:
    planned = plan("preset=smoke", "envs.catch.server=docker", "envs.catch.image=me/catch:1")
    server = planned.environments["catch"]
    assert server.process is not None and server.process.ready is not None
    assert server.process.argv[1:6] == (
        "-m",
        "trl_envs.servers.docker",
        "trl-env-catch-1f00",
        "me/catch:1",
        "127.0.0.1:8765",
    )
    assert set(server.process.argv[6:]) == {"OPENSPIEL_GAME=catch", "MAX_CONCURRENT_ENVS=10"}
    assert server.process.cleanup == ("docker", "rm", "--force", "--volumes", "trl-env-catch-1f00")
    assert server.process.ready.url == "http://127.0.0.1:8765/health"
    assert (server.urls, server.image, server.shared) == (("http://127.0.0.1:8765",), "me/catch:1", False)
    assert [spec.name for spec in planned.processes()] == ["server-catch", "trainer"]


def test_containers_share_no_port_and_ask_for_docker_once() -> None:
    asked: list[int] = []
    with pytest.raises(PreflightError, match="can't serve 2 environments"):
        composed = compose(["recipe=multi_env", "server=docker", "server.port=9001"])
        build_plan(composed.config, facts(docker_problem=lambda: asked.append(1) or ""), Path("/runs/one"), [])
    assert asked == [1]
    plan(docker_problem=lambda: pytest.fail("nobody wants a container"))


def test_a_space_has_no_address_until_the_hub_has_given_it() -> None:
    planned = plan("server=space")
    server = planned.environments["catch"]
    assert (server.space, server.urls, server.process, server.token) == ("openenv/openspiel_env", (), None, False)
    assert server.shared
    found = planned.with_servers({"catch": replace(server, urls=("https://x.hf.space",))})
    assert found.environments["catch"].urls == ("https://x.hf.space",)
    assert found.trainer == planned.trainer


@pytest.mark.parametrize(
    ("url", "public"),
    [
        ("https://me-catch.hf.space", True),
        ("https://me-catch.hf.space/sub", True),
        ("http://me-catch.hf.space", True),
        ("https://ME-catch.HF.space:443", True),
        ("https://hf.space.example.com", False),
        ("http://127.0.0.1:8001", False),
    ],
)
def test_an_address_that_may_be_somebody_elses_space_is_told_by_its_look(url: str, public: bool) -> None:
    assert plan(f"envs.catch.url={url}").environments["catch"].shared is public


@pytest.mark.parametrize(
    ("overrides", "sent"),
    [
        (("envs.catch.url=http://127.0.0.1:1",), False),
        (("envs.catch.url=https://example.com",), False),
        (("envs.catch.url=https://me-catch.hf.space",), False),
        (("envs.catch.url=https://example.com", "server.token_env=MY_TOKEN"), True),
    ],
)
def test_a_hub_token_goes_to_no_address_of_which_nobody_knows_whose_it_is(
    overrides: tuple[str, ...], sent: bool
) -> None:
    assert plan(*overrides).environments["catch"].token is sent


def test_the_plan_prints_as_commands_and_as_json(tmp_path: Path) -> None:
    data = json.loads(json.dumps(plan("preset=smoke").as_dict()))
    assert data["environments"]["catch"]["urls"] == ["http://127.0.0.1:8765"]
    words = shlex.split(data["commands"]["server-catch"])
    assert "MAX_CONCURRENT_ENVS=10" in words
    at = words.index("--host")
    assert words[at : at + 4] == ["--host", "127.0.0.1", "--port", "8765"]
    echoed = plan("envs.catch.variables.NOTE='two words; $HOME'").processes()[0]
    variables = echoed.command().split(sys.executable)[0]
    done = subprocess.run(
        ["bash", "-c", f"{variables} {sys.executable} -c 'import os; print(os.environ[\"NOTE\"])'"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "two words; $HOME\n"


def test_several_processes_are_started_by_torch_and_need_as_many_sessions() -> None:
    planned = plan("launch.processes=2")
    assert planned.trainer.argv[1:6] == ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")
    assert planned.environments["catch"].sessions == 64
    assert plan().environments["catch"].sessions == 32


def test_an_environment_that_names_no_server_gets_none() -> None:
    planned = plan("envs.catch.app=null", "envs.catch.space=null", "envs.catch.image=null")
    assert planned.environments["catch"].urls == ()
    assert [spec.name for spec in planned.processes()] == ["trainer"]


def test_threads_wait_passively_on_a_cpu_unless_the_person_chose() -> None:
    assert plan().trainer.variables["OMP_WAIT_POLICY"] == "PASSIVE"
    assert "OMP_WAIT_POLICY" not in plan(gpus=[A100]).trainer.variables
    assert "OMP_WAIT_POLICY" not in plan(variables={"OMP_WAIT_POLICY": "ACTIVE"}).trainer.variables


def test_import_folders_come_before_the_users_own_path() -> None:
    composed = compose(["recipe=catch"])
    planned = build_plan(
        composed.config, facts(variables={"PYTHONPATH": "/mine"}), Path("/runs/one"), ["/here", "/mine"]
    )
    for spec in planned.processes():
        assert spec.variables["PYTHONPATH"].split(os.pathsep) == ["/here", "/mine"]


def test_serving_alone_takes_the_number_of_sessions_asked_for() -> None:
    specs = build_servers(compose(["recipe=echo"]).config, facts(), 100, [])
    assert int(specs["echo"].variables["MAX_CONCURRENT_ENVS"]) >= 100


def test_an_evaluation_plays_before_and_after_training_only_if_asked_for() -> None:
    assert plan().evaluations == {}
    planned = plan("eval.episodes=20")
    assert [spec.name for spec in planned.processes()] == ["server-catch", "eval-before", "trainer", "eval-after"]
    before, after = planned.evaluations["before"], planned.evaluations["after"]
    assert before.argv[-3:] == ("/runs/one", "--name", "before")
    assert after.argv[-5:] == ("/runs/one", "--name", "after", "--model", "/runs/one/model")
    assert before.variables == planned.trainer.variables
    assert "trl_envs.evaluate.worker" in planned.as_dict()["commands"]["eval-after"]


@pytest.mark.parametrize(
    ("overrides", "cpus", "workers"),
    [
        ((), 8, None),
        (("grpo.gradient_accumulation_steps=32",), 8, "2"),
        (("grpo.gradient_accumulation_steps=32",), 1, None),
        (("grpo.gradient_accumulation_steps=128",), 4, "4"),
        (("server.workers=3",), 1, "3"),
        (("grpo.gradient_accumulation_steps=128", "server.workers=1"), 8, None),
    ],
)
def test_a_local_server_has_a_process_for_every_32_sessions_as_far_as_there_are_cores(
    overrides: tuple[str, ...], cpus: int, workers: str | None
) -> None:
    process = plan(*overrides, cpus=cpus).environments["catch"].process
    assert process is not None
    found = process.argv[process.argv.index("--workers") + 1] if "--workers" in process.argv else None
    assert found == workers
