"""Baselines on a real server: what the players score, and a lint for each way in which a reward can be broken."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.agent.plain_env import __name__ as plain_module
from tests.evaluate.playing import catch_config
from tests.loopback import serving
from trl_envs.config.schema import EnvConfig, TrainConfig
from trl_envs.config.store import to_yaml
from trl_envs.envs.episode import Episode
from trl_envs.evaluate import baseline
from trl_envs.evaluate.baseline import main
from trl_envs.evaluate.summary import invalid_actions
from trl_envs.plan.build import build_plan
from trl_envs.plan.facts import MachineFacts
from trl_envs.rehearse import bench_config
from trl_envs.results.baseline import Baseline, Lint, read_baseline
from trl_envs.results.baseline_table import baseline_tables, lint_lines
from trl_envs.results.episodes import read_episodes
from trl_envs.results.outcome import Outcome
from trl_envs.results.rundir import RunDirectory

SESSIONS, EPISODES = 8, 8
FACTS = MachineFacts(gpus=[], mps=False, vllm=None, free_port=lambda host: 1, variables=dict(os.environ))
# Of those who do the same every time.
FEW = 4
# By environment: its terms, the kind of the lint, the term it names, its sentence and what it has one change.
BROKEN: dict[str, tuple[list[str], str, str, str, str]] = {
    "steady": (["caught", "same"], "constant", "same", "is 0.5 in all", "envs.steady.rewards.same.weight=0"),
    "undone": (["caught", "minus_caught"], "cancelling", "minus_caught", "cancel each other", "minus_caught.weight=0"),
    "upside": (
        ["missed"],
        "solver",
        "missed",
        "the solver scores 0 and random play",
        "envs.upside.rewards.missed.weight",
    ),
    "idle": (
        ["caught", "each_move_hurts"],
        "nothing",
        "each_move_hurts",
        "doing nothing scores 0 and the solver -8",
        "envs.idle.rewards.each_move_hurts.weight=0.25",
    ),
    "fated": (["by_seed"], "groups", "by_seed", "follows from the seed", "envs.fated.rewards.by_seed._target_"),
    "partly": (["caught", "none_if_missed"], "unscored", "none_if_missed", "that weren't lost", "0.0 where there is"),
    "silent": (["caught", "never"], "unscored", "never", "it never scores anything", "return a number"),
    "waiting": (["none_if_idle"], "unscored", "none_if_idle", "all of them without a tool call", "return a number"),
}


def environment(env: EnvConfig, terms: list[str]) -> EnvConfig:
    named = {term: {"_target_": f"tests.evaluate.broken_rewards.{term}"} for term in terms}
    return replace(env, rewards=named)


def planned(folder: Path, config: TrainConfig) -> RunDirectory:
    run = RunDirectory.create(folder, "run")
    config = bench_config(config, SESSIONS)
    run.write_config(to_yaml(config))
    run.write_plan(build_plan(config, FACTS, run.path, []).as_dict())
    return run


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Baseline]:
    """Every broken reward and the sound one, each an environment of its own."""
    with pytest.MonkeyPatch.context() as patch, serving("catch", sessions=SESSIONS + 2) as server:
        patch.setattr(baseline, "FEW_EPISODES", FEW)
        patch.setattr(baseline, "GROUPS", 4)
        patch.setattr(baseline, "GROUP_SIZE", 3)
        config = catch_config(**{"envs.catch.url": server.url})
        catch = config.envs["catch"]
        envs = {name: environment(catch, broken[0]) for name, broken in BROKEN.items()}
        run = planned(tmp_path_factory.mktemp("baseline"), replace(config, envs={"catch": catch, **envs}))
        assert main([str(run.path), "--episodes", str(EPISODES)]) == 0
    result = read_baseline(run)
    assert isinstance(result, Baseline)
    played = list(read_episodes(run.episodes_file))
    assert len([one for one in played if one["environment"] == "catch" and one["mode"] == "random"]) == EPISODES
    yield result


def test_random_play_the_solver_and_doing_nothing_are_told_apart(found: Baseline) -> None:
    catch = found.environments["catch"]
    assert list(catch.players) == ["random", "solver", "nothing"]
    random, solver, nothing = catch.players.values()
    assert solver.wins is not None and random.wins is not None and nothing.wins is not None
    assert (solver.wins.mean, nothing.wins.mean) == (1.0, 0.0) and 0 <= (random.wins.mean or 0) < 0.8
    assert solver.terms["caught"] == solver.reward == solver.wins
    assert (random.turns.mean, nothing.turns.mean, random.invalid.mean) == (9.0, 0.0, 0.0)
    assert (random.episodes, random.lost, nothing.episodes) == (EPISODES, 0, FEW)
    assert not catch.lints


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_reward_is_caught_with_its_own_sentence(found: Baseline, name: str) -> None:
    _, kind, term, said, change = BROKEN[name]
    [lint] = [lint for lint in found.environments[name].lints if lint.kind == kind]
    assert (lint.term, lint.level) == (f"{name}.{term}", "warning")
    assert f"{name}.{term}" in lint.message and said in lint.message and change in lint.hint
    others = [broken[3] for other, broken in BROKEN.items() if other != name and broken[3] != said]
    assert not any(other in lint.message for other in others if kind != "unscored")


def test_what_was_found_survives_json_and_is_shown(found: Baseline) -> None:
    from io import StringIO

    from rich.console import Console

    console = Console(file=StringIO(), width=120)
    for table in baseline_tables(found):
        console.print(table)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "caught" in text and "95 % interval" in text and "invalid actions" in text
    assert all(len(line.splitlines()) == 2 for line in lint_lines(found))
    assert lint_lines(Baseline({})) == ["ok: no lint has anything against the reward"]


def test_a_term_that_fails_ends_the_baseline_with_its_name(tmp_path: Path) -> None:
    with serving("catch", sessions=SESSIONS + 2) as server:
        config = catch_config(**{"envs.catch.url": server.url})
        run = planned(tmp_path, replace(config, envs={"catch": environment(config.envs["catch"], ["breaks"])}))
        assert main([str(run.path), "--episodes", "2"]) == 1
    result = read_baseline(run)
    assert isinstance(result, Outcome)
    assert "the reward term catch.breaks failed: KeyError" in result.message


def test_a_class_without_players_of_its_own_is_played_by_its_schemas(tmp_path: Path) -> None:
    config = catch_config()
    env = EnvConfig(
        environment={"_target_": f"{plain_module}.Plain"},
        prompt="Count.",
        episodes=4,
        rewards={"counted": {"_target_": "tests.evaluate.test_baseline.counted"}},
    )
    run = planned(tmp_path, replace(config, envs={"count": env}))
    assert main([str(run.path), "--episodes", "6"]) == 0
    result = read_baseline(run)
    assert isinstance(result, Baseline)
    players = result.environments["count"].players
    assert list(players) == ["random", "nothing"]
    assert (players["random"].turns.mean or 0) > 0 and players["random"].wins is None


def counted(episode: Episode) -> float:
    return float(len(episode.events))


def test_moves_that_the_game_refuses_count_as_invalid_like_failed_calls() -> None:
    assert invalid_actions(Episode(facts={"invalid": 2}), 1) == 2
    assert invalid_actions(Episode(facts={"moves": 5, "accepted": 2}), 0) == 3
    assert invalid_actions(Episode(facts={"moves": 5}), 4) == 4


def test_a_lint_is_plain_data() -> None:
    assert Lint("note", "a", "b", "c", "d") == Lint(**vars(Lint("note", "a", "b", "c", "d")))
