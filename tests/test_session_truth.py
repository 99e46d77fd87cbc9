"""Servers in trouble under whole runs: every episode they touch is lost, named, and in no metric."""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.troubled import RESTART_CODE
from tests.whole_runs import run
from trl_envs.machine import free_port
from trl_envs.results.episodes import read_episodes
from trl_envs.results.metrics import read_metrics
from trl_envs.servers.health import why_silent

pytestmark = pytest.mark.slow


@contextmanager
def troubled(game: str, folder: Path, troubles: list[tuple[int, str]]) -> Iterator[str]:
    """A server with these troubles, started again whenever it ends by itself; gives its URL."""
    folder.mkdir()
    (folder / "troubles.json").write_text(json.dumps(troubles))
    port = free_port("127.0.0.1")
    command = [sys.executable, "-m", "tests.troubled", game, str(port), str(folder)]
    over = threading.Event()
    processes: list[subprocess.Popen[bytes]] = []

    def keep_up() -> None:
        while not over.is_set():
            processes.append(subprocess.Popen(command, cwd=Path(__file__).parent.parent, env=dict(os.environ)))
            if processes[-1].wait() != RESTART_CODE:
                return

    thread = threading.Thread(target=keep_up)
    thread.start()
    try:
        url = f"http://127.0.0.1:{port}"
        deadline_s = time.monotonic() + 60
        while why_silent(url):
            assert time.monotonic() < deadline_s
            time.sleep(0.1)
        yield url
    finally:
        over.set()
        for process in processes:
            process.kill()
        thread.join()


def played(path: Path) -> dict[int, list[dict[str, Any]]]:
    steps: dict[int, list[dict[str, Any]]] = {}
    for episode in read_episodes(path / "episodes.jsonl"):
        steps.setdefault(episode["step"], []).append(episode)
    return steps


def assert_metrics_know_only_what_was_played(path: Path) -> None:
    """Each step's metrics are those of its episodes that weren't lost, computed here from the episodes themselves."""
    steps = played(path)
    for line in (line for line in read_metrics(path / "metrics.jsonl") if "reward" in line):
        episodes = steps[line["step"]]
        lost = [episode for episode in episodes if episode["lost"]]
        assert all(value is None for episode in lost for value in episode["rewards"].values())
        assert (line["episodes/played"], line["episodes/lost"]) == (len(episodes), len(lost))
        for term in episodes[0]["rewards"]:
            values = [episode["rewards"][term] for episode in episodes if not episode["lost"]]
            assert None not in values
            mean = line[f"rewards/{term}/mean"]
            assert mean == pytest.approx(statistics.fmean(values)) if values else mean is None or math.isnan(mean)


# A game of wordle has fewer steps than one of catch: after the first trouble in a batch there are some left.
@pytest.mark.parametrize(("game", "apart"), [("catch", 70), ("wordle", 24)])
def test_restart_drop_and_time_out_lose_the_episodes_that_they_touch_and_no_other(
    tmp_path: Path, game: str, apart: int
) -> None:
    trouble = tmp_path / "trouble"
    with troubled(game, trouble, [(12, "drop"), (apart, "hang"), (apart, "restart")]) as url:
        code, _, err = run(
            tmp_path,
            f"recipe={game}",
            "preset=smoke",
            f"envs.{game}.url={url}",
            "grpo.max_steps=6",
            "rollout.call_timeout_s=3",
            "rollout.max_lost_fraction=1",
            "run_name=hard",
        )
    assert code == 0, err
    path = tmp_path / "runs" / "hard"
    struck = [json.loads(line) for line in (trouble / "struck.jsonl").read_text().splitlines()]
    assert [entry["trouble"] for entry in struck] == ["drop", "hang", "restart"]
    reasons = [e["lost"] for episodes in played(path).values() for e in episodes if e["lost"]]
    assert len(reasons) == 1 + 1 + struck[2]["playing"]
    assert sum("no answer within 3 s" in reason for reason in reasons) == 1
    assert all("was lost in a step" in reason for reason in reasons), reasons
    assert_metrics_know_only_what_was_played(path)


@pytest.mark.parametrize("game", ["catch", "wordle"])
def test_a_server_that_forgets_its_sessions_stops_the_run_with_that_cause(tmp_path: Path, game: str) -> None:
    with troubled(game, tmp_path / "trouble", [(12, "forget")]) as url:
        code, _, err = run(
            tmp_path, f"recipe={game}", "preset=smoke", f"envs.{game}.url={url}", "grpo.max_steps=6", "run_name=gone"
        )
    assert code == 1, err
    path = tmp_path / "runs" / "gone"
    assert "reset the environment before the first step" in err
    assert "episodes of a generation batch were lost" in err
    assert_metrics_know_only_what_was_played(path)
    [last] = [episodes for step, episodes in played(path).items() if any(e["lost"] for e in episodes)]
    assert all("reset the environment before the first step" in e["lost"] for e in last if e["lost"])
    assert json.loads((path / "record.json").read_text())["status"] == "failed"
