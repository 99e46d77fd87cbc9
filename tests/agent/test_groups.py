from __future__ import annotations

from trl_envs.agent.groups import differing_games
from trl_envs.envs.episode import Episode, Event


def played(*calls: tuple[str, str]) -> Episode:
    return Episode("one", 1, [Event(tool, {"a": [1]}, result) for tool, result in calls])


def test_only_equal_first_calls_are_compared() -> None:
    same = [played(("left", "one"), ("left", "two")), played(("left", "one"), ("left", "three"))]
    other = [played(("left", "one")), played(("left", "two"))]
    apart = [played(("left", "one")), played(("right", "two"))]
    assert differing_games([*same, *other], 2) == 0.5
    assert differing_games([*same, *apart], 2) == 0.0
    assert differing_games([*other, *apart], 2) == 1.0


def test_there_may_be_nothing_to_compare() -> None:
    lost = Episode("one", 1, [Event("left", {}, "x")], lost="gone")
    assert differing_games([], 2) == 0.0
    assert differing_games([Episode(), Episode()], 2) == 0.0
    assert differing_games([lost, played(("left", "y"))], 2) == 0.0
