"""The vLLM server of launch=server, for real: started, examined, listened to, played with and stopped as in a run."""

from __future__ import annotations

import io
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import psutil
import pytest
from rich.console import Console

from tests.runtime.programs import is_running
from tests.vllm.conftest import with_gpus
from trl_envs.agent.tiny.play import embedded_server, recipe_prompt, tools_of
from trl_envs.cli.display import TrainDisplay
from trl_envs.config.compose import compose
from trl_envs.envs.catch import CatchEnv
from trl_envs.envs.game import end_episode
from trl_envs.errors import ProcessExited
from trl_envs.launch import machine_facts
from trl_envs.machine import port_is_free
from trl_envs.plan.build import build_plan
from trl_envs.plan.spec import ProcessSpec
from trl_envs.results.rundir import RunDirectory
from trl_envs.rollout.session import SessionOpener
from trl_envs.runtime.supervisor import Supervisor
from trl_envs.servers.health import Heartbeat
from trl_envs.servers.vllm import Pulse
from trl_envs.stage import Stage

pytestmark = pytest.mark.vllm

SLEEP = ("sh", "-c", "sleep 300")
TOOLS = "launch.vllm_args=[--enable-auto-tool-choice,--tool-call-parser,hermes]"


@contextmanager
def stage(folder: Path, program: Path, arguments: str = TOOLS) -> Iterator[Stage]:
    """A run at the point where its environment servers stand; its trainer only waits."""
    mine = ("recipe=catch", "preset=smoke", "launch=server", f"launch.vllm_executable={program}", arguments)
    composed = compose([*mine, "launch.heartbeat_timeout_s=10"])
    run = RunDirectory.create(folder, "one")
    plan = build_plan(composed.config, with_gpus(machine_facts(), 2), run.path, [])
    display = TrainDisplay(Console(file=io.StringIO()))
    with Supervisor(run.logs_dir) as supervisor, Heartbeat({}, interval_s=0.5) as beat:
        yield Stage(run, plan, composed.config, display, supervisor, beat)


def family(one: Stage) -> list[psutil.Process]:
    """The server's processes: the one that listens, and all that it has started."""
    assert one.plan.engine is not None
    mark = str(one.plan.engine.process.port)
    [server] = [child for child in psutil.Process().children() if mark in child.cmdline()]
    return [server, *server.children(recursive=True)]


def assert_nothing_is_left(one: Stage, processes: list[psutil.Process]) -> None:
    assert not [process for process in processes if is_running(process.pid)]
    assert one.plan.engine is not None
    assert port_is_free("127.0.0.1", one.plan.engine.process.port or 0)


def reply_to(url: str, model: str, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
    asked = {
        "model": model,
        "messages": messages,
        "tools": tools,
        "temperature": 0.0,
        "max_tokens": 96,
        "chat_template_kwargs": {"enable_thinking": False},
    }
    headers = {"Content-Type": "application/json"}
    with urlopen(Request(f"{url}/v1/chat/completions", json.dumps(asked).encode(), headers), timeout=60) as response:
        message: dict[str, Any] = json.load(response)["choices"][0]["message"]
    return message


def play(url: str, model: str, environment: CatchEnv, seed: int) -> None:
    """One episode, as an agent of another program would play it."""
    messages = [{"role": "user", "content": recipe_prompt("catch") + environment.reset(seed=seed)}]
    tools = tools_of(environment)
    for _ in range(9):
        message = reply_to(url, model, messages, tools)
        messages.append({key: message[key] for key in ("role", "content", "tool_calls")})
        [call] = message["tool_calls"]
        result = getattr(environment, call["function"]["name"])(**json.loads(call["function"]["arguments"]))
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})


def test_the_tiny_agent_plays_catch_through_its_chat_completions(tmp_path: Path, vllm_program: Path) -> None:
    with stage(tmp_path, vllm_program) as one, embedded_server("trl_envs.envs.catch.server:app") as games:
        assert one.plan.engine is not None
        with one.generating():
            processes = family(one)
            environment = CatchEnv(SessionOpener([games]))
            for seed in range(4):
                play(one.plan.engine.url, one.plan.engine.model, environment, seed)
                assert environment.episode.done and environment.episode.lost is None
                end_episode(environment)
            one.beat.check()
            assert figures_of(one.plan.engine.url)["generation_tokens"] > 100
            assert Pulse(one.plan.engine.url).why_stuck(5) == ""
        # Gone while the run goes on, and by the polite signal: nobody misses it.
        assert_nothing_is_left(one, processes)
        one.beat.check()
        assert "Shutting down" in (one.run.logs_dir / "vllm.log").read_text()


def figures_of(url: str) -> dict[str, float]:
    """What the launcher knows of the engine's work."""
    pulse = Pulse(url)
    return {"generation_tokens": sum(pulse.look(5)[1].values()), "requests": sum(pulse.look(5)[0].values())}


def generate(url: str, model: str) -> None:
    """A completion that ends only with the model's length, or with the server."""
    asked = {"model": model, "prompt": "Catch the ball.", "max_tokens": 400, "ignore_eos": True, "n": 16}
    headers = {"Content-Type": "application/json"}
    with suppress(OSError), urlopen(Request(f"{url}/v1/completions", json.dumps(asked).encode(), headers)) as response:
        response.read()


def test_an_engine_that_hangs_in_the_middle_of_a_completion_ends_the_run(tmp_path: Path, vllm_program: Path) -> None:
    hung, processes = None, []
    with pytest.raises(ProcessExited) as ended, stage(tmp_path, vllm_program) as one, one.generating():
        assert one.plan.engine is not None
        url, model, processes = one.plan.engine.url, one.plan.engine.model, family(one)
        trainer = one.supervisor.start(ProcessSpec("trainer", SLEEP))
        threading.Thread(target=generate, args=(url, model), daemon=True).start()
        give_up_at_s = time.monotonic() + 60
        while figures_of(url)["requests"] == 0:
            assert time.monotonic() < give_up_at_s
        [engine] = [process for process in processes if "EngineCore" in " ".join(process.cmdline())]
        engine.suspend()
        hung = time.monotonic()
        one.supervisor.watch(trainer, one.beat.check)
    assert "requests wait in it, and no token comes" in ended.value.message
    assert hung is not None and time.monotonic() - hung < 60
    assert_nothing_is_left(one, processes)


def test_an_engine_that_dies_behind_its_server_ends_the_run(tmp_path: Path, vllm_program: Path) -> None:
    with pytest.raises(ProcessExited) as ended, stage(tmp_path, vllm_program) as one, one.generating():
        processes = family(one)
        trainer = one.supervisor.start(ProcessSpec("trainer", SLEEP))
        [engine] = [process for process in processes if "EngineCore" in " ".join(process.cmdline())]
        os.kill(engine.pid, signal.SIGKILL)
        one.supervisor.watch(trainer, one.beat.check)
    assert "vllm" in ended.value.message.lower()
    assert_nothing_is_left(one, processes)
