"""The folder of collected games: whose it is, what is kept of what was played, and that it is whole or not there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trl_envs.errors import ConfigError
from trl_envs.results.collection import Collection
from trl_envs.results.jsonlines import JsonLinesWriter

MADE_FROM = {"policy": "solver", "envs": {"catch": {"prompt": "Catch it."}}}


def played(
    number: int, reward: float | None = 1.0, *, whole: bool = True, environment: str = "catch"
) -> dict[str, Any]:
    thought = {"reasoning_content": "It is there."} if number % 2 else {}
    messages = [{"role": "user", "content": f"game {number}"}, {"role": "assistant", "content": "Done.", **thought}]
    return {
        "environment": environment,
        "number": number,
        "seed": number,
        "rewards": {f"{environment}.caught": reward},
        "reward": reward,
        "end": "no tool call",
        "game": {"messages": messages, "tools": "[]"} if whole else None,
    }


def collection(folder: Path, *episodes: dict[str, Any]) -> Collection:
    made = Collection(folder / "data")
    with made.held(MADE_FROM), JsonLinesWriter(made.played_file) as writer:
        for episode in episodes:
            writer.write(episode)
    return made


def games(of: Collection) -> list[dict[str, Any]]:
    return [json.loads(line) for line in of.games_file.read_text().splitlines()]


def test_games_are_kept_by_their_reward_with_what_they_are(tmp_path: Path) -> None:
    made = collection(
        tmp_path, played(0, 0.5), played(1, 0.4), played(2, None), played(3, 1.0), played(4, 1.0, whole=False)
    )
    assert made.gathered() is None and not made.games_file.exists()
    found = made.finish(5, 0.5)
    assert (found.played, found.kept, found.below, found.cut_off, found.thoughts) == (5, 2, 2, 1, 1)
    assert found.reward.mean == pytest.approx(0.725) and found.kept_reward.mean == 0.75
    assert made.gathered() == found
    assert [(game["seed"], game["reward"], game["rewards"]) for game in games(made)] == [
        (0, 0.5, {"catch.caught": 0.5}),
        (3, 1.0, {"catch.caught": 1.0}),
    ]
    assert set(games(made)[0]) == {"messages", "tools", "environment", "seed", "rewards", "reward"}


def test_without_a_least_reward_all_whole_games_are_kept_and_more_can_be_asked_later(tmp_path: Path) -> None:
    made = collection(tmp_path, *(played(number, None if number else 0.0) for number in range(4)))
    assert made.finish(2, None).kept == 2
    found = made.finish(4, None)
    assert (found.kept, found.below, found.reward.n) == (4, 0, 1)
    assert len(games(made)) == 4


def test_when_no_game_is_left_the_earlier_choice_stays(tmp_path: Path) -> None:
    made = collection(tmp_path, played(0, 0.5))
    made.finish(1, None)
    with pytest.raises(ConfigError, match="none of 1 games is left: 1 have less than --min-reward 2"):
        made.finish(1, 2.0)
    assert len(games(made)) == 1
    assert sorted(file.name for file in made.path.iterdir()) == [
        ".lock",
        "collection.json",
        "games.jsonl",
        "played.jsonl",
    ]


def test_a_line_that_a_crash_cut_off_is_played_again(tmp_path: Path) -> None:
    made = collection(tmp_path, played(0), played(1))
    made.played_file.write_bytes(made.played_file.read_bytes()[:-20])
    assert made.numbers() == {"catch": {0}}
    with made.held(MADE_FROM), JsonLinesWriter(made.played_file) as writer:
        writer.write(played(1))
    assert made.numbers() == {"catch": {0, 1}}
    assert made.finish(2, None).kept == 2


def test_games_of_another_making_are_refused_by_what_differs(tmp_path: Path) -> None:
    made = collection(tmp_path, played(0))
    other = {"policy": "random", "envs": {"catch": {"prompt": "Catch it.", "system_prompt": None}, "echo": {}}}
    with pytest.raises(ConfigError) as refused, made.held(other):
        pass
    assert 'policy was "solver" and is "random"' in refused.value.message
    assert "envs.echo was null and is {}" in refused.value.message
    assert "prompt" not in refused.value.message
    assert "--out" in refused.value.hint
    with made.held(MADE_FROM):
        pass


def test_a_folder_of_something_else_and_a_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    for path, said in (
        (tmp_path, "holds something else already: thesis.tex"),
        (tmp_path / "thesis.tex", "File exists"),
    ):
        with pytest.raises(ConfigError, match=said), Collection(path).held(MADE_FROM):
            pass
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]


def test_one_process_collects_at_a_time(tmp_path: Path) -> None:
    made = collection(tmp_path)
    with made.held(MADE_FROM), pytest.raises(ConfigError, match="another process"), made.held(MADE_FROM):
        pass


def test_what_is_no_collection_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no collected games") as refused:
        Collection(tmp_path).gathered()
    assert "trl-env collect" in refused.value.hint
    (tmp_path / "collection.json").write_text('{"format": 99}')
    with pytest.raises(ConfigError, match="another format"):
        Collection(tmp_path).gathered()
