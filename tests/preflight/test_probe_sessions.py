"""How many sessions a server really gives: real servers, real sessions."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.loopback import LiveServer, serving, serving_app
from tests.preflight.games import SeedlessServer
from tests.preflight.probing import opened, planned, probed, reported
from tests.preflight.test_static import facts
from trl_envs.config.compose import compose
from trl_envs.envs.catch.server import CatchAction, CatchObservation
from trl_envs.plan.build import build_plan
from trl_envs.preflight.live import is_public_space
from trl_envs.preflight.probe import probe
from trl_envs.preflight.probe_report import Collector
from trl_envs.preflight.probe_sessions import latency, open_all
from trl_envs.rollout.openenv_core import create_fastapi_app
from trl_envs.rollout.session import SessionOpener


def test_a_server_with_too_few_sessions_is_found_out(tmp_path: Path) -> None:
    with serving("catch", 2) as server:
        report = probed(tmp_path, f"envs.catch.url={server.url}")
        assert opened(server.url, 2) == 2
    (finding,) = report.errors
    assert finding.key == "envs.catch.url"
    assert "8 sessions needed at once, 2 found" in finding.message
    assert "MAX_CONCURRENT_ENVS=8" in finding.hint
    assert "trl-env serve recipe=catch --sessions 8" in finding.hint
    entry = report.figures["capacity"][0]
    assert (entry["needed"], entry["found"], entry["tried"]) == (8, 2, 8)
    fewer = finding.hint.partition("ask for fewer: ")[2].split()
    assert planned(tmp_path, *fewer)[1].batch.sessions == 2


def test_enough_sessions_pass_and_are_all_free_afterwards(tmp_path: Path) -> None:
    with serving("catch", 8) as server:
        report = probed(tmp_path, f"envs.catch.url={server.url}")
        assert opened(server.url, 8) == 8
    assert not report.findings
    assert report.figures["capacity"][0]["found"] == 8
    episode = report.figures["episodes"]["catch"]
    assert episode["calls"] == 9
    assert episode["rewards"]["caught"] in (0.0, 1.0)
    for entry in (report.figures["capacity"][0]["reset_s"], episode["step_s"]):
        assert 0 < entry["median"] <= entry["p95"] < 5
    assert report.figures["model"]["prompt_tokens"]["catch"] > 50


def test_slots_that_an_earlier_client_still_holds_for_a_moment_are_waited_for(tmp_path: Path) -> None:
    with serving("catch", 8) as server:
        held = open_all([SessionOpener([server.url])] * 4)
        timer = threading.Timer(0.5, held.close)
        timer.start()
        assert not probed(tmp_path, f"envs.catch.url={server.url}").errors
        timer.join()


def test_a_larger_evaluation_batch_needs_its_own_number(tmp_path: Path) -> None:
    with serving("catch", 8) as server:
        report = probed(tmp_path, f"envs.catch.url={server.url}", "grpo.per_device_eval_batch_size=12")
    (finding,) = report.errors
    assert "12 sessions needed at once, 8 found" in finding.message
    assert "grpo.per_device_eval_batch_size=4" in finding.hint


def test_two_processes_need_twice_the_sessions(tmp_path: Path) -> None:
    with serving("catch", 8) as server:
        report = probed(tmp_path, f"envs.catch.url={server.url}", "launch.processes=2")
    (finding,) = report.errors
    assert "16 sessions needed at once, 8 found" in finding.message


TWO = """
defaults: [catch, _self_]
envs:
  other:
    environment: {_target_: trl_envs.envs.catch.CatchEnv}
    prompt: Play the other game.
    episodes: 10
    rewards: {caught: {_target_: trl_envs.envs.catch.rewards.caught}}
"""


def test_environments_on_one_server_share_its_sessions(tmp_path: Path) -> None:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "two.yaml").write_text(TWO)
    with serving("catch", 12) as server:
        composed = compose(
            ["recipe=two", "preset=smoke", f"envs.catch.url={server.url}", f"envs.other.url={server.url}/"],
            [tmp_path / "recipes"],
        )
        plan = build_plan(composed.config, facts(), tmp_path, [])
        collector = Collector(60)
        probe(composed.config, plan.as_dict()["environments"], collector, all_sessions=False)
    report = reported(collector, tmp_path)
    (finding,) = report.errors
    assert "catch and other: 16 sessions needed at once, 12 found" in finding.message
    assert set(report.figures["episodes"]) == {"catch", "other"}


def test_a_server_that_ignores_the_seed_is_warned_about(tmp_path: Path) -> None:
    with serving_app(
        lambda: create_fastapi_app(SeedlessServer, CatchAction, CatchObservation, max_concurrent_envs=8)
    ) as server:
        report = probed(tmp_path, f"envs.catch.url={server.url}")
    assert not report.errors
    (finding,) = report.warnings
    assert "two episodes with the same seed differed, from the first observation on" in finding.message
    assert "envs.catch.url=null" in finding.hint


def test_a_dead_server_is_a_finding(tmp_path: Path) -> None:
    with serving("catch") as server:
        url = server.url
    report = probed(tmp_path, f"envs.catch.url={url}", "rollout.connect_timeout_s=1", "rollout.capacity_wait_s=0.2")
    assert any("no server could be reached" in finding.message for finding in report.errors)
    assert report.figures["capacity"][0]["found"] == 0


@pytest.mark.parametrize(
    ("url", "public"),
    [
        ("https://me-catch.hf.space", True),
        ("https://me-catch.hf.space/sub", True),
        ("http://me-catch.hf.space", False),
        ("https://hf.space.example.com", False),
        ("http://127.0.0.1:8001", False),
    ],
)
def test_public_spaces_are_told_by_their_address(url: str, public: bool) -> None:
    assert is_public_space(url) is public


def test_a_public_space_gets_one_session_unless_asked(
    tmp_path: Path, roomy: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # There is no Space to be had here; what counts as one is tested above.
    for module in ("probe", "probe_sessions"):
        monkeypatch.setattr(f"trl_envs.preflight.{module}.is_public_space", lambda url: True)
    report = probed(tmp_path, f"envs.catch.url={roomy.url}")
    (finding,) = report.findings
    assert (finding.level, finding.hint.split()[:2]) == ("warning", ["add", "--probe"])
    assert (report.figures["capacity"][0]["tried"], report.figures["capacity"][0]["needed"]) == (1, 8)
    assert not probed(tmp_path, f"envs.catch.url={roomy.url}", all_sessions=True).findings


def test_the_percentile_is_the_nearest_rank() -> None:
    assert latency([]) is None
    assert latency([0.2]) == {"median": 0.2, "p95": 0.2}
    assert latency([number / 100 for number in range(1, 101)]) == {"median": 0.505, "p95": 0.95}
