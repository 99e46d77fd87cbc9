"""Rollouts played at the same time train the very same model as those that TRL plays one after the other."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
from trl import GRPOTrainer

from tests.loopback import serving
from trl_envs.agent.tiny.play import embedded_server
from trl_envs.config.compose import compose
from trl_envs.config.store import to_yaml
from trl_envs.launch import machine_facts
from trl_envs.plan.build import build_plan
from trl_envs.results.metrics import read_metrics
from trl_envs.results.rundir import RunDirectory
from trl_envs.training import turns, worker

TIMES = ("time", "runtime", "per_second", "calls_per", "slowest")


@pytest.fixture(autouse=True)
def _as_the_plan_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")


def trained(folder: Path, *overrides: str, steps: int = 2) -> RunDirectory:
    """A run of the training worker in this process."""
    composed = compose(["preset=smoke", f"grpo.max_steps={steps}", *overrides])
    run = RunDirectory.create(folder, "run")
    plan = build_plan(composed.config, machine_facts(), run.path, composed.import_folders)
    run.write_config(to_yaml(composed.config))
    run.write_plan(plan.as_dict())
    assert worker.train(run, checkpoint=None, attempt=1) == steps
    return run


def traces(run: RunDirectory) -> dict[str, Any]:
    """All that a run leaves but for its times: metrics, episodes, completions, and every bit of the weights."""
    metrics = [
        {key: value for key, value in line.items() if not any(word in key for word in TIMES)}
        for line in read_metrics(run.metrics_file)
    ]
    return {
        "metrics": metrics,
        "episodes": [json.loads(line) for line in run.episodes_file.read_text().splitlines()],
        "completions": [
            parquet.read_table(file).to_pylist() for file in sorted(run.path.glob("completions/*.parquet"))
        ],
        "weights": (run.model_dir / "model.safetensors").read_bytes(),
    }


PLAIN = """
import asyncio
import random
import time

LOOK = "Ball: column 3. Paddle: column 3. The ball is right above the paddle. Moves left: 5."

class Slow:
    '''Some calls fail, some are asynchronous, and all take a while that differs.'''

    def reset(self, seed, **row):
        self.pause_s = random.Random(seed).random() / 50
        self.calls = 0
        return LOOK

    def move(self, direction: str) -> str:
        '''Move the paddle one column to the left or to the right. The ball falls by one row.

        Args:
            direction: Where to move: "left" or "right".
        '''
        time.sleep(self.pause_s)
        self.calls += 1
        if self.calls % 3 == 0:
            raise ValueError(f"No {self.calls}.")
        return LOOK

    async def stay(self) -> str:
        '''Leave the paddle where it is. The ball falls by one row.'''
        await asyncio.sleep(self.pause_s)
        self.calls += 1
        return LOOK

def calls(environments, **kwargs):
    return [float(environment.calls % 4) for environment in environments]
"""
RECIPE = """
envs:
  plain:
    environment: {_target_: slow_plain.Slow}
    prompt: "Catch the ball.\\n"
    episodes: 16
    rewards: {calls: {_target_: slow_plain.calls, weight: 1.0}}
grpo: {}
"""


@pytest.mark.parametrize(
    "limits",
    [
        "",
        pytest.param("grpo.max_completion_length=150", marks=pytest.mark.slow),
        "grpo.max_tool_calling_iterations=2",
    ],
    ids=["whole games", "budget within the game", "two rounds"],
)
def test_games_on_a_server(tmp_path: Path, limits: str) -> None:
    with serving("catch", sessions=16) as server:
        common = ["recipe=catch", f"envs.catch.url={server.url}", *limits.split()]
        one_by_one = traces(trained(tmp_path / "one", *common, "rollout.concurrency=1"))
        together = traces(trained(tmp_path / "all", *common))
    assert together == one_by_one
    assert any(episode["events"] for episode in together["episodes"])


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["catch", "wordle", "multi_env"])
def test_ten_steps_of_each_game(tmp_path: Path, recipe: str) -> None:
    apps = {name: str(env.app) for name, env in compose([f"recipe={recipe}"]).config.envs.items()}
    with ExitStack() as stack:
        urls = [f"envs.{name}.url={stack.enter_context(embedded_server(app))}" for name, app in apps.items()]
        common = [f"recipe={recipe}", *urls, "grpo.learning_rate=1e-4"]
        one_by_one = traces(trained(tmp_path / "one", *common, "rollout.concurrency=1", steps=10))
        together = traces(trained(tmp_path / "all", *common, steps=10))
    assert together == one_by_one
    assert {episode["environment"] for episode in together["episodes"]} == set(apps)
    assert len({line["loss"] for line in together["metrics"] if "loss" in line}) > 3


def test_a_plain_class_with_failing_and_asynchronous_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "plain.yaml").write_text(RECIPE)
    (tmp_path / "slow_plain.py").write_text(PLAIN)
    one_by_one = traces(trained(tmp_path / "one", "recipe=plain", "rollout.concurrency=1"))
    together = traces(trained(tmp_path / "all", "recipe=plain"))
    assert together == one_by_one
    events = [event for episode in together["episodes"] for event in episode["events"]]
    assert any(event["error"] for event in events)
    assert {event["tool"] for event in events} == {"move", "stay"}


def test_each_prompt_lists_the_tools_of_its_own_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[str, str]] = []
    tokenize = GRPOTrainer._tokenize_prompts

    def watched(self: GRPOTrainer, prompts: Any) -> Any:
        result = tokenize(self, prompts)
        texts = [self.processing_class.decode(ids) for ids in result[0]]
        shown.extend(zip(self._batch_environments, texts, strict=True))
        return result

    monkeypatch.setattr(GRPOTrainer, "_tokenize_prompts", watched)
    with serving("catch", sessions=16) as catch, embedded_server("trl_envs.envs.wordle.server:app") as wordle:
        trained(tmp_path, "recipe=multi_env", f"envs.catch.url={catch.url}", f"envs.wordle.url={wordle}")
    assert {name for name, _ in shown} == {"catch", "wordle"}
    for name, text in shown:
        listed = {tool for tool in ("move", "stay", "guess") if f'"name": "{tool}"' in text}
        assert listed == ({"guess"} if name == "wordle" else {"move", "stay"})


def test_the_installed_trl_is_one_whose_calls_can_be_foreseen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert turns.why_not_concurrent() == ""
    monkeypatch.setattr(GRPOTrainer, "_tool_call_loop", lambda self, completions: None)
    assert "('self', 'completions')" in turns.why_not_concurrent()


def test_another_trl_plays_in_its_own_order_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "LOOP_PARAMETERS", ("self", "other"))
    with (
        serving("catch", sessions=16) as server,
        pytest.warns(UserWarning, match="rollouts are played one after the other"),
    ):
        run = trained(tmp_path, "recipe=catch", f"envs.catch.url={server.url}")
    assert len(list(read_metrics(run.metrics_file))) >= 2
