"""What the probe finds in a recipe's classes, terms and model; and its contract as the child that it is."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.loopback import LiveServer
from tests.preflight.probing import planned, probed, reported
from trl_envs.cli.findings import budget_lines
from trl_envs.config.store import to_yaml
from trl_envs.paths import make_importable
from trl_envs.preflight.findings import Finding
from trl_envs.preflight.live import probe_spec, read_report
from trl_envs.preflight.probe import probe
from trl_envs.preflight.probe_report import Collector

GAMES = "tests.preflight.games"


def with_class(name: str, url: str) -> list[str]:
    return [f"envs.catch.environment={{_target_: {GAMES}.{name}}}", f"envs.catch.url={url}"]


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


def test_a_tool_that_crashes_is_named(tmp_path: Path, roomy: LiveServer) -> None:
    report = probed(tmp_path, *with_class("Crashing", roomy.url), f"envs.catch.rewards.caught._target_={GAMES}.fine")
    assert any("the tool press raised KeyError: '" in finding.message for finding in report.warnings)


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
        ([f"envs.catch.rewards.extra={{_target_: {GAMES}.scalar}}"], "catch.extra returned 1.0 for 1 episodes"),
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


@pytest.mark.parametrize(
    ("name", "level", "message"),
    [
        ("Unreadable", "error", r"the tool count returned .*udc80 surrogate', which no tokenizer takes"),
        ("Quitting", "error", r"the tool count raised SystemExit\(7\), which ends the trainer"),
        ("Nameless", "warning", r"the tool count returned <object object at 0x\w+>, which the model would read"),
    ],
)
def test_what_a_tool_returns_has_to_be_text(
    tmp_path: Path, roomy: LiveServer, name: str, level: str, message: str
) -> None:
    report = probed(tmp_path, *with_class(name, roomy.url), f"envs.catch.rewards.caught._target_={GAMES}.fine")
    (finding,) = report.findings
    assert finding.level == level
    assert re.search(message, finding.message)


def test_scripted_games_are_counted_in_the_models_own_tokens(tmp_path: Path, roomy: LiveServer) -> None:
    report = probed(tmp_path, f"envs.catch.url={roomy.url}")
    assert not report.findings
    tokens = report.figures["tokens"]
    assert [games["player"] for games in tokens["games"]["catch"]] == ["solver", "random"]
    solver = tokens["games"]["catch"][0]
    assert solver["calls"] == {"median": 9, "p95": 9}
    assert solver["prompt"]["p95"] > report.figures["model"]["prompt_tokens"]["catch"]
    # Every move shows the board once more.
    assert 9 * 20 < solver["completion"]["median"] < 1024
    assert tokens["limits"] == {"completion": 1024, "calls": 12, "positions": 8192, "vllm": None, "thinking": 0}


def test_episodes_that_cannot_fit_are_refused_and_in_a_smoke_run_warned_about(
    tmp_path: Path, roomy: LiveServer
) -> None:
    limits = ["grpo.max_completion_length=128", "grpo.max_tool_calling_iterations=4"]
    report = probed(tmp_path, f"envs.catch.url={roomy.url}", *limits)
    assert [finding.level for finding in report.findings] == ["warning", "warning"]
    report = probed(tmp_path, f"envs.catch.url={roomy.url}", *limits, "rollout.allow_cut_episodes=false")
    length, calls = report.errors
    assert "catch: episodes of 307 tokens (95th percentile of 8 games of the solver" in length.message
    assert length.hint.startswith("set grpo.max_completion_length=384;")
    assert calls.hint.startswith("set grpo.max_tool_calling_iterations=11")


def test_a_class_of_ones_own_is_counted_as_far_as_its_script_goes(tmp_path: Path, roomy: LiveServer) -> None:
    overrides = [*with_class("Counting", roomy.url), f"envs.catch.rewards.caught._target_={GAMES}.fine"]
    (games,) = probed(tmp_path, *overrides).figures["tokens"]["games"]["catch"]
    assert (games["player"], games["calls"]) == ("script", {"median": 1, "p95": 1})
    (tmp_path / "inherits.py").write_text(
        "from trl_envs.envs.catch import CatchEnv\n\nclass Mine(CatchEnv):\n    pass\n"
    )
    make_importable([str(tmp_path)])
    report = probed(tmp_path, "envs.catch.environment={_target_: inherits.Mine}", f"envs.catch.url={roomy.url}")
    assert [games["player"] for games in report.figures["tokens"]["games"]["catch"]] == ["solver", "random"]


def test_on_a_gpu_memory_is_estimated(tmp_path: Path, roomy: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho '0, GPU-0, NVIDIA L4, 23034, 8.9'\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    composed, plan = planned(tmp_path, f"envs.catch.url={roomy.url}")
    collector = Collector(60)
    probe(composed.config, {**plan.as_dict(), "device": "cuda"}, collector, all_sessions=False)
    report = reported(collector, tmp_path)
    assert not report.findings
    memory = report.figures["memory"]
    assert (memory["gpu"], round(memory["gpu_gib"], 1)) == ("NVIDIA L4", 22.5)
    assert 0 < memory["parts"]["weights"] < 0.1 and 1.5 < memory["peak_gib"] <= memory["worst_gib"] < 3
    lines = budget_lines(report)
    assert lines[0].split() == ["tokens", "median", "95th", "pct", "limit"]
    assert "         tool calls         9         9   12 (grpo.max_tool_calling_iterations)" in lines
    assert "memory   estimated GiB of NVIDIA L4 (22.5 GiB)" in lines


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
