"""How long a generation batch waits for its environments, with trl-env's trainer and with TRL's own.

    python benchmarks/rollout_latency.py [--rollouts 64] [--turns 6] [--delay-ms 50] [--runs 5] [--agent] [--json]

Both trainers play catch against the same embedded server, behind a proxy that delays every message to it, so a call
takes as long as it would to a distant Space. A scripted policy writes the turns, so only waiting is measured; with
--agent the tiny agent plays, and the seconds of a whole batch are compared too. Runs are paired: the two trainers take
turns. "own" is the time that the slowest rollout spends in its own calls: nobody can wait less than that.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from trl_envs.agent.clock import EnvironmentClock
from trl_envs.agent.dataset import build_rows
from trl_envs.agent.environments import build_factories
from trl_envs.agent.terms import build_terms, reward_function
from trl_envs.config.compose import compose
from trl_envs.config.model_location import model_location
from trl_envs.envs.catch import CatchEnv
from trl_envs.envs.game import end_episode, tool
from trl_envs.machine import free_port
from trl_envs.plan.environments import PLAIN
from trl_envs.results.episodes import EpisodeWriter
from trl_envs.rollout.concurrent import ConcurrentCalls
from trl_envs.servers.health import why_silent
from trl_envs.training.trainer import AgentTrainer

START_TIMEOUT_S = 120.0
PROXY = Path(__file__).with_name("support") / "delaying_proxy.py"
CALL = '<tool_call>\n{"name": "stay", "arguments": {}}\n</tool_call><|im_end|>'


class TimedCatch(CatchEnv):
    """Catch that adds up the seconds of its own calls."""

    _own_s = 0.0

    def reset(self, seed: int | None = None, **row: Any) -> str:
        """Starts an episode."""
        started_s = time.perf_counter()
        try:
            return super().reset(seed, **row)
        finally:
            self._own_s = time.perf_counter() - started_s

    @tool
    def stay(self) -> str:
        """Leave the paddle where it is. The ball falls by one row.

        Returns:
            Where ball and paddle are now.
        """
        started_s = time.perf_counter()
        try:
            return self._act("stay")
        finally:
            self._own_s += time.perf_counter() - started_s


@contextmanager
def delayed(url: str, delay_s: float) -> Iterator[str]:
    """The address of a proxy before a server."""
    there = urlsplit(url)
    command = [sys.executable, str(PROXY), str(there.hostname), str(there.port), str(delay_s)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.stdin.close()
        process.terminate()
        process.wait(timeout=30)
        process.stdout.close()


@contextmanager
def catch_server(sessions: int, delay_s: float) -> Iterator[str]:
    """The embedded catch server in a process of its own; its address, or that of a proxy before it."""
    port = free_port("127.0.0.1")
    command = [sys.executable, "-m", "uvicorn", "trl_envs.envs.catch.server:app", "--port", str(port)]
    variables = {**os.environ, "MAX_CONCURRENT_ENVS": str(2 * sessions)}
    process = subprocess.Popen([*command, *PLAIN, "--log-level", "error"], env=variables)
    url = f"http://127.0.0.1:{port}"
    try:
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while why_silent(url):
            if process.poll() is not None or time.monotonic() > deadline_s:
                raise RuntimeError("the server didn't start")
            time.sleep(0.1)
        if not delay_s:
            yield url
            return
        with delayed(url, delay_s) as distant:
            yield distant
    finally:
        process.terminate()
        process.wait(timeout=30)


def scripted(trainer: GRPOTrainer, turns: int) -> None:
    """Has a script write the turns: `stay()` so many times, then the end."""
    tokenizer = trainer.processing_class
    call, end = tokenizer.encode(CALL), tokenizer.encode("Done.<|im_end|>")
    said = {"turns": 0}

    def turn(prompt_ids: list[list[int]], *_: Any, **__: Any) -> tuple[list[list[int]], None]:
        said["turns"] += 1
        over = said["turns"] > turns
        if over:
            said["turns"] = 0
        return [list(end if over else call) for _ in prompt_ids], None

    trainer._generate_single_turn = turn


class Side:
    """One trainer and its environments.

    Args:
        url: Address of the server.
        rollouts: Rollouts in a batch.
        turns: Turns of the scripted policy; None has the tiny agent play.
        calls: Plays them at the same time; None leaves them to TRL.
        folder: For what trainers write.
    """

    def __init__(self, url: str, rollouts: int, turns: int | None, calls: ConcurrentCalls | None, folder: str) -> None:
        config = compose(["recipe=catch", "preset=smoke", f"envs.catch.episodes={rollouts}"]).config
        config.envs["catch"].environment = {"_target_": f"{__name__}.TimedCatch"}
        self.clock = EnvironmentClock()
        factories = build_factories(config.envs, {"catch": (url,)}, config.rollout, {"catch": None}, self.clock, calls)
        arguments = GRPOConfig(
            output_dir=folder,
            use_cpu=True,
            bf16=False,
            per_device_train_batch_size=rollouts,
            num_generations=8,
            max_completion_length=1024,
            chat_template_kwargs={"enable_thinking": False},
            report_to=[],
            seed=0,
        )
        shared: dict[str, Any] = {
            "model": model_location("tiny"),
            "args": arguments,
            "train_dataset": Dataset.from_list(build_rows(config.envs)),
            "reward_funcs": [reward_function(term) for term in build_terms(config.envs)],
            "environment_factory": factories,
        }
        if calls is None:
            self.trainer = GRPOTrainer(**shared)
        else:
            self.trainer = AgentTrainer(
                **shared,
                episodes=EpisodeWriter(Path(folder) / "episodes.jsonl"),
                clock=EnvironmentClock(),
                calls=calls,
                attempt=1,
                max_lost_fraction=0.0,
            )
        rows = [self.trainer.train_dataset[index] for index in range(rollouts // 8)]
        self.batch = [row for row in rows for _ in range(8)]
        if turns is not None:
            scripted(self.trainer, turns)

    def play(self) -> dict[str, float]:
        """One batch: seconds of it all, waited for environments, and of the slowest rollout's own calls."""
        self.clock.take()
        started_s = time.perf_counter()
        self.trainer._generate_and_score_completions(self.batch)
        batch_s = time.perf_counter() - started_s
        environments = self.trainer.environments
        own_s = max(environment._own_s for environment in environments)
        assert all(environment.episode.lost is None for environment in environments)
        for environment in environments:
            end_episode(environment)
        return {"batch_s": batch_s, "waited_s": self.clock.take().waited_s, "own_s": own_s}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    turns = None if options.agent else options.turns
    with catch_server(options.rollouts, options.delay_ms / 1000) as url, tempfile.TemporaryDirectory() as folder:
        sides = {
            "trl-env": Side(url, options.rollouts, turns, ConcurrentCalls(options.rollouts), folder),
            "trl": Side(url, options.rollouts, turns, None, folder),
        }
        runs: dict[str, list[dict[str, float]]] = {name: [] for name in sides}
        for run in range(options.runs + 1):
            for name, side in sides.items():
                played = side.play()
                if run:
                    runs[name].append(played)
    result: dict[str, Any] = {"rollouts": options.rollouts, "delay_ms": options.delay_ms, "turns": turns}
    for name in sides:
        result[name] = {key: statistics.median(one[key] for one in runs[name]) for key in runs[name][0]}
    pairs = list(zip(runs["trl-env"], runs["trl"], strict=True))
    result["waited_over_own"] = statistics.median(ours["waited_s"] / ours["own_s"] for ours in runs["trl-env"])
    result["waited_over_trl"] = statistics.median(ours["waited_s"] / theirs["waited_s"] for ours, theirs in pairs)
    result["batch_over_trl"] = statistics.median(ours["batch_s"] / theirs["batch_s"] for ours, theirs in pairs)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rollouts", type=int, default=64)
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--delay-ms", type=float, default=50.0)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--agent", action="store_true", help="the tiny agent plays whole games")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = measure(options)
    if options.json:
        print(json.dumps(result, indent=2))
        return
    player = "the tiny agent" if options.agent else f"{options.turns} turns"
    print(
        f"{options.rollouts} rollouts, {player}, {options.delay_ms:g} ms a call, {options.runs} paired runs, medians\n"
    )
    print(f"{'':10}{'batch s':>10}{'waited s':>10}{'own s':>10}")
    for name in ("trl-env", "trl"):
        print(f"{name:10}" + "".join(f"{result[name][key]:10.3f}" for key in ("batch_s", "waited_s", "own_s")))
    print(f"\nwaiting over the slowest rollout's own calls: {result['waited_over_own']:.2f}")
    print(f"waiting, ratio to TRL: {result['waited_over_trl']:.3f}; whole batch: {result['batch_over_trl']:.3f}")


if __name__ == "__main__":
    main()
