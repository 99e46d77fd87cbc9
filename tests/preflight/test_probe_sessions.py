"""How many sessions a server really gives: real servers, real sessions."""

from __future__ import annotations

import dataclasses
import threading
from contextlib import ExitStack
from pathlib import Path

from tests.loopback import LiveServer, serving, serving_app
from tests.preflight.games import SeedlessServer
from tests.preflight.probing import opened, planned, probed, reported
from tests.preflight.test_static import facts
from trl_envs.config.compose import compose
from trl_envs.envs.catch.server import CatchAction, CatchObservation
from trl_envs.plan.build import build_plan
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
        probe(composed.config, plan.as_dict(), collector, all_sessions=False)
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


def test_a_space_of_somebody_else_gets_one_session_unless_asked(tmp_path: Path, roomy: LiveServer) -> None:
    composed, plan = planned(tmp_path, "server=space")
    # As the Hub would have it; servers/test_space.py asks one.
    space = dataclasses.replace(plan.environments["catch"], urls=(roomy.url,), shared=True)
    for all_sessions in (False, True):
        collector = Collector(60)
        located = plan.with_servers({"catch": space}).as_dict()
        probe(composed.config, located, collector, all_sessions=all_sessions)
        report = reported(collector, tmp_path)
        entry = report.figures["capacity"][0]
        assert (entry["tried"], entry["needed"]) == (8 if all_sessions else 1, 8)
        warned = [finding for finding in report.findings if finding.hint.startswith("add --probe")]
        assert [finding.key for finding in warned] == ([] if all_sessions else ["envs.catch.space"])


def test_a_space_that_turns_out_too_small_can_be_copied(tmp_path: Path) -> None:
    composed, plan = planned(tmp_path, "server=space")
    with serving("catch", 2) as server:
        own = dataclasses.replace(plan.environments["catch"], urls=(server.url,), shared=False)
        collector = Collector(60)
        probe(composed.config, plan.with_servers({"catch": own}).as_dict(), collector, all_sessions=False)
    (finding,) = reported(collector, tmp_path).errors
    assert finding.key == "envs.catch.space"
    assert "8 sessions needed at once, 2 found" in finding.message
    assert "trl-env space duplicate recipe=catch --sessions 8 --to USER/openspiel_env" in finding.hint
    assert "ask for fewer: grpo." in finding.hint


def test_servers_of_one_session_each_serve_a_batch_together(tmp_path: Path) -> None:
    four = ["grpo.per_device_train_batch_size=2", "grpo.gradient_accumulation_steps=2", "grpo.num_generations=2"]
    with ExitStack() as stack:
        urls = [stack.enter_context(serving("catch", 1)).url for _ in range(4)]
        report = probed(tmp_path, f"envs.catch.url=[{','.join(urls)}]", *four)
        assert not report.findings
        entry = report.figures["capacity"][0]
        assert (entry["needed"], entry["found"], entry["urls"]) == (4, 4, sorted(urls))
        report = probed(tmp_path, f"envs.catch.url=[{','.join(urls[:3])}]", *four)
    (finding,) = report.errors
    assert (finding.key, report.figures["capacity"][0]["found"]) == ("envs.catch.url", 3)
    assert "4 sessions needed at once, 3 found" in finding.message
    assert "name more servers in the list" in finding.hint


def test_the_percentile_is_the_nearest_rank() -> None:
    assert latency([]) is None
    assert latency([0.2]) == {"median": 0.2, "p95": 0.2}
    assert latency([number / 100 for number in range(1, 101)]) == {"median": 0.505, "p95": 0.95}
