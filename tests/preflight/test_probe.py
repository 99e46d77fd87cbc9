"""The probe against real servers: in this process, and for its contract as the child that it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openenv.core.env_server.http_server import create_fastapi_app

from tests.loopback import LiveServer, serving, serving_app
from tests.preflight.games import SeedlessServer
from tests.preflight.test_static import facts
from trl_envs.config.compose import Composed, compose
from trl_envs.config.store import to_yaml
from trl_envs.envs.catch.server import CatchAction, CatchObservation
from trl_envs.plan.build import build_plan
from trl_envs.plan.launch_plan import LaunchPlan
from trl_envs.preflight.findings import Finding, Report
from trl_envs.preflight.live import is_public_space, probe_spec, read_report
from trl_envs.preflight.probe import probe
from trl_envs.preflight.probe_report import Collector
from trl_envs.preflight.probe_sessions import latency, open_all
from trl_envs.rollout.session import SessionOpener, SessionSettings

GAMES = "tests.preflight.games"


@pytest.fixture(scope="module")
def roomy() -> Iterator[LiveServer]:
    with serving("catch", 24) as server:
        yield server


def planned(folder: Path, *overrides: str) -> tuple[Composed, LaunchPlan]:
    recipe = [] if any(override.startswith("recipe=") for override in overrides) else ["recipe=catch"]
    composed = compose([*recipe, "preset=smoke", *overrides])
    return composed, build_plan(composed.config, facts(), folder, composed.import_folders)


def probed(folder: Path, *overrides: str, all_sessions: bool = False) -> Report:
    """The report of a probe in this process."""
    composed, plan = planned(folder, *overrides)
    collector = Collector(60)
    probe(composed.config, plan.as_dict()["environments"], collector, all_sessions=all_sessions)
    return reported(collector, folder)


def reported(collector: Collector, folder: Path) -> Report:
    with Path(os.devnull).open("wb") as nowhere:
        collector.emit(folder, nowhere.fileno())
    report = read_report(folder)
    assert report is not None
    return report


def opened(url: str, sessions: int) -> int:
    """How many sessions a server gives at once, without any wait."""
    held = open_all([SessionOpener([url], SessionSettings(capacity_wait_s=0))] * sessions)
    held.close()
    return len(held.sessions)


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
    import threading

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


def with_class(name: str, url: str) -> list[str]:
    return [f"envs.catch.environment={{_target_: {GAMES}.{name}}}", f"envs.catch.url={url}"]


def with_term(name: str, url: str) -> list[str]:
    return [f"envs.catch.rewards.extra={{_target_: {GAMES}.{name}}}", f"envs.catch.url={url}"]


def test_every_flaw_of_the_tools_is_named(tmp_path: Path, roomy: LiveServer) -> None:
    report = probed(tmp_path, *with_class("Flawed", roomy.url), f"envs.catch.rewards.caught._target_={GAMES}.fine")
    messages = {finding.message: finding.hint for finding in report.errors}
    assert len(messages) == 4
    for method, reason, fix in (
        ("helper", "has no docstring", "Flawed._helper"),
        ("untyped", "missing a type hint", "give each argument a type"),
        ("undescribed", "no description for the argument", "Args:"),
        ("close", "could call it as a tool", "Flawed._close"),
    ):
        hint = next(hint for message, hint in messages.items() if f"Flawed.{method}" in message and reason in message)
        assert fix in hint


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["envs.catch.environment={_target_: no_such.Env}"], "there is no module no_such"),
        (["envs.catch.environment={_target_: trl_envs.envs.catch.CatchEmv}"], "has no CatchEmv"),
        ([f"envs.catch.environment={{_target_: {GAMES}.Counting, strat: 3}}"], "Counting takes no strat"),
        ([f"envs.catch.environment={{_target_: {GAMES}.Unbuildable}}"], "RuntimeError: no licence"),
        ([f"envs.catch.environment={{_target_: {GAMES}.Unready}}"], "OSError: no display"),
        ([f"envs.catch.environment={{_target_: {GAMES}.Toolless}}"], "Toolless has no public method"),
        (["envs.catch.rewards.caught.bonus=2"], "caught takes no bonus"),
        (["envs.catch.rewards.extra={_target_: trl_envs.envs.catch.rewards.cauht}"], "has no cauht"),
        ([f"envs.catch.rewards.extra={{_target_: {GAMES}.raising}}"], "catch.extra failed: KeyError: 'no such fact'"),
        ([f"envs.catch.rewards.extra={{_target_: {GAMES}.wordy}}"], "catch.extra returned 'high', which is no number"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_the_recipe_names_has_to_work(
    overrides: list[str], message: str, tmp_path: Path, roomy: LiveServer
) -> None:
    report = probed(tmp_path, f"envs.catch.url={roomy.url}", *overrides)
    (finding,) = [finding for finding in report.errors if message in finding.message]
    assert finding.key.startswith("envs.catch.")
    assert finding.hint


def test_terms_of_both_styles_score_the_scripted_episode(tmp_path: Path, roomy: LiveServer) -> None:
    extra = [f"envs.catch.rewards.{name}={{_target_: {GAMES}.{name}}}" for name in ("trl_style", "unscored")]
    report = probed(tmp_path, f"envs.catch.url={roomy.url}", *extra)
    assert not report.findings
    rewards = report.figures["episodes"]["catch"]["rewards"]
    assert rewards["trl_style"] == 18.0
    assert rewards["unscored"] is None


def test_a_class_without_sessions_is_played_by_its_schemas(tmp_path: Path, roomy: LiveServer) -> None:
    overrides = [*with_class("Counting", roomy.url), f"envs.catch.rewards.caught._target_={GAMES}.fine"]
    report = probed(tmp_path, *overrides)
    assert not report.findings
    assert report.figures["episodes"]["catch"]["calls"] == 1
    assert report.figures["capacity"] == []
    forgetful = probed(tmp_path, *with_class("Forgetful", roomy.url), overrides[-1])
    assert [finding.level for finding in forgetful.findings] == ["warning"]


def test_tools_that_always_fail_are_warned_about(tmp_path: Path, roomy: LiveServer) -> None:
    report = probed(tmp_path, *with_class("EchoLess", roomy.url), f"envs.catch.rewards.caught._target_={GAMES}.fine")
    (finding,) = report.findings
    assert finding.level == "warning"
    assert "never works" in finding.message


def test_an_unknown_model_is_named_with_two_ways_on(tmp_path: Path, roomy: LiveServer) -> None:
    report = probed(tmp_path, f"envs.catch.url={roomy.url}", "model=nobody/No-Such-Model")
    (finding,) = report.errors
    assert "nobody/No-Such-Model" in finding.message
    assert "model=tiny" in finding.hint
    assert "HF_TOKEN" in finding.hint
    assert report.figures["episodes"]["catch"]["calls"] == 9


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda template: "{% for m in messages %}{{ m['content'] }}{% endfor %}", "doesn't support tool calling"),
        (lambda template: template + " ", "knows by its exact text"),
    ],
    ids=["no tools", "one space more"],
)
def test_a_template_that_cannot_call_tools_is_refused(
    change: Any, message: str, tmp_path: Path, roomy: LiveServer
) -> None:
    from trl_envs.paths import tiny_model_dir

    changed = tmp_path / "model"
    changed.mkdir()
    for file in tiny_model_dir().iterdir():
        if file.name == "chat_template.jinja":
            (changed / file.name).write_text(change(file.read_text()))
        else:
            (changed / file.name).symlink_to(file)
    (finding,) = probed(tmp_path, f"envs.catch.url={roomy.url}", f"model={changed}").errors
    assert message in finding.message
    assert "model=tiny" in finding.hint


def test_a_model_folder_without_weights_is_refused(tmp_path: Path, roomy: LiveServer) -> None:
    (tmp_path / "model").mkdir()
    (finding,) = probed(tmp_path, f"envs.catch.url={roomy.url}", f"model={tmp_path / 'model'}").errors
    assert "holds no weights" in finding.message


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


def test_the_child_prints_one_json_document_and_leaves_it(tmp_path: Path, roomy: LiveServer) -> None:
    composed, plan = planned(tmp_path, f"envs.catch.url={roomy.url}")
    (tmp_path / "config.yaml").write_text(to_yaml(composed.config))
    (tmp_path / "plan.json").write_text(json.dumps(plan.as_dict()))
    argv = probe_spec(plan, tmp_path, all_sessions=False).argv
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=True)
    report = read_report(tmp_path)
    assert report is not None
    assert json.loads(done.stdout) == report.as_dict()
    assert not report.findings


def test_a_probe_that_hangs_ends_at_its_deadline_with_what_it_found(tmp_path: Path) -> None:
    code = f"""
import sys, time
from pathlib import Path
from trl_envs.preflight.probe_report import Collector
collector = Collector(0.3)
collector.end_at_deadline(Path({str(tmp_path)!r}), 1)
collector.error("model.path", "found before", "do this")
with collector.doing("waiting for Godot"):
    time.sleep(60)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    first, second = [Finding.from_dict(finding) for finding in json.loads(done.stdout)["findings"]]
    assert first.message == "found before"
    assert "waiting for Godot" in second.message
    assert read_report(tmp_path) is not None
