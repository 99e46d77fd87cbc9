"""Servers that don't take what a class sends: real ones, of another game or another protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from websockets.sync.server import ServerConnection

from tests.envs.test_echo import mcp_app
from tests.loopback import serving, serving_app, serving_raw
from tests.preflight.probing import planned, probed, reported
from trl_envs.preflight.findings import Report
from trl_envs.preflight.probe_env import load_candidates
from trl_envs.preflight.probe_protocol import check_protocols
from trl_envs.preflight.probe_report import Collector


def compared(folder: Path, *overrides: str, **plan_fields: Any) -> Report:
    """The report of this check alone, the servers planned as `plan_fields` say."""
    composed, plan = planned(folder, *overrides)
    servers = plan.as_dict()["environments"]
    collector = Collector(60)
    candidates = load_candidates(composed.config, servers, collector)
    servers = {name: {**server, **plan_fields} for name, server in servers.items()}
    playable = check_protocols(composed.config, servers, candidates, collector)
    report = reported(collector, folder)
    assert bool(playable) is not bool(report.errors)
    return report


def test_a_server_of_another_game_is_refused_and_nothing_is_played_with_it(tmp_path: Path) -> None:
    with serving("echo", 8) as server:
        report = probed(tmp_path, "recipe=catch", f"envs.catch.url={server.url}")
        url = server.url
    (finding,) = report.findings
    assert (finding.level, finding.key) == ("error", "envs.catch.url")
    assert finding.message == (
        f"catch: CatchEnv can't play with {url}: by its /schema the actions there lack action_id and game_name; "
        "they have message"
    )
    assert "correct envs.catch.url" in finding.hint
    assert "envs.catch.url=null" in finding.hint
    assert (report.figures["capacity"], report.figures["episodes"]) == ([], {})


@pytest.mark.parametrize(
    ("recipe", "game", "lacks"),
    [
        ("wordle", "catch", "lack message; they have action_id, game_name, game_params"),
        ("sudoku", "catch", "lack message; they have action_id, game_name, game_params"),
        ("echo", "catch", "lack message, or else arguments and tool_name and type; they have action_id"),
        ("catch", "mcp", "lack action_id and game_name; they have arguments, tool_name, type"),
        ("wordle", "mcp", "lack message; they have arguments, tool_name, type"),
    ],
)
def test_the_missing_fields_are_named(recipe: str, game: str, lacks: str, tmp_path: Path) -> None:
    with serving_app(mcp_app) if game == "mcp" else serving(game) as server:
        report = compared(tmp_path, f"recipe={recipe}", f"envs.{recipe}.url={server.url}")
    (finding,) = report.errors
    assert lacks in finding.message


@pytest.mark.parametrize("game", ["echo", "mcp"])
def test_either_protocol_of_echo_will_do(game: str, tmp_path: Path) -> None:
    with serving_app(mcp_app) if game == "mcp" else serving(game) as server:
        assert not compared(tmp_path, "recipe=echo", f"envs.echo.url={server.url}").findings


def test_of_several_servers_the_wrong_one_is_named(tmp_path: Path) -> None:
    with serving("catch") as right, serving("echo") as wrong:
        report = compared(tmp_path, "recipe=catch", f"envs.catch.url=[{right.url},{wrong.url}]")
    (finding,) = report.errors
    assert wrong.url in finding.message
    assert right.url not in finding.message


@pytest.mark.parametrize(
    ("plan_fields", "key"),
    [
        ({}, "envs.catch.url"),
        ({"process": {"name": "server-catch"}}, "envs.catch.app"),
        ({"process": {"name": "server-catch"}, "image": "echo:latest"}, "envs.catch.image"),
        ({"space": "openenv/echo_env"}, "envs.catch.space"),
    ],
)
def test_the_fix_is_where_the_server_was_named(plan_fields: dict[str, Any], key: str, tmp_path: Path) -> None:
    with serving("echo") as server:
        report = compared(tmp_path, "recipe=catch", f"envs.catch.url={server.url}", **plan_fields)
    (finding,) = report.errors
    assert finding.key == key
    assert key in finding.hint


def test_without_a_schema_or_a_declaration_the_sessions_decide(tmp_path: Path) -> None:
    def mute(connection: ServerConnection) -> None:
        connection.recv()

    with serving_raw(mute) as url:
        assert not compared(tmp_path, "recipe=catch", f"envs.catch.url={url}").findings
    with serving("echo") as server:
        plain = "envs.catch.environment={_target_: tests.preflight.games.Counting}"
        assert not compared(tmp_path, "recipe=catch", f"envs.catch.url={server.url}", plain).findings
        silent = "envs.catch.environment={_target_: tests.preflight.games.EchoLess}"
        assert not compared(tmp_path, "recipe=catch", f"envs.catch.url={server.url}", silent).findings
