"""Calls made ahead: at the same time, each environment's own in order, and given out as they are asked for."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from trl_envs.evaluate.tools import async_loop
from trl_envs.rollout.concurrent import Call, ConcurrentCalls

ENVIRONMENTS = 8


class Game:
    """Its calls return only when those of all other games have begun."""

    def __init__(self, together: threading.Barrier) -> None:
        self.together = together
        self.made: list[int] = []

    def play(self, number: int) -> int:
        self.together.wait(timeout=5)
        self.made.append(number)
        if number < 0:
            raise ValueError(f"{number} is negative")
        return number * 10

    async def wait(self, number: int) -> int:
        await asyncio.sleep(0.2)
        self.made.append(number)
        return number * 10


@pytest.fixture
def games() -> list[Game]:
    together = threading.Barrier(ENVIRONMENTS)
    return [Game(together) for _ in range(ENVIRONMENTS)]


@pytest.fixture
def calls() -> Iterator[ConcurrentCalls]:
    threads = threading.active_count()
    with async_loop() as loop:
        with ConcurrentCalls(ENVIRONMENTS) as made:
            made.loop = lambda: loop
            yield made
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("trl-env-rollout")]
    assert threading.active_count() == threads


def call(game: Game, name: str, number: int) -> Call:
    return Call(name, {"number": number}, lambda: getattr(game, name)(number), awaited=name == "wait")


def never() -> Any:
    raise AssertionError("made a second time")


def test_all_are_made_together_and_each_games_in_order(calls: ConcurrentCalls, games: list[Game]) -> None:
    calls.expect(lambda: [(game, [call(game, "play", 1), call(game, "play", 2)]) for game in games])
    for number in (1, 2):
        for game in games:
            assert calls.make(game, "play", {"number": number}, never) == number * 10
    assert all(game.made == [1, 2] for game in games)
    calls.settle()
    assert not calls.problem


def test_a_plan_is_asked_again_for_each_turn(calls: ConcurrentCalls, games: list[Game]) -> None:
    turns = iter(range(1, 4))

    def plan() -> list[tuple[object, list[Call]]]:
        turn = next(turns)
        return [(game, [call(game, "play", turn)]) for game in games]

    calls.expect(plan)
    for turn in range(1, 4):
        assert [calls.make(game, "play", {"number": turn}, never) for game in games] == [10 * turn] * ENVIRONMENTS
    calls.settle()
    assert not calls.problem


def test_an_error_is_raised_where_it_is_asked_for(calls: ConcurrentCalls, games: list[Game]) -> None:
    numbers = [-1, *range(1, ENVIRONMENTS)]
    calls.expect(lambda: [(game, [call(game, "play", n)]) for game, n in zip(games, numbers, strict=True)])
    for game, number in list(zip(games, numbers, strict=True))[1:]:
        assert calls.make(game, "play", {"number": number}, never) == number * 10
    with pytest.raises(ValueError, match="-1 is negative"):
        calls.make(games[0], "play", {"number": -1}, never)


def test_asynchronous_calls_overlap_and_come_after_those_that_block(calls: ConcurrentCalls, games: list[Game]) -> None:
    calls.expect(lambda: [(g, [call(g, "wait", 2), call(g, "play", 1), call(g, "wait", 3)]) for g in games])

    async def waited(game: Game, number: int) -> Any:
        return await calls.make_awaited(game, "wait", {"number": number}, never)

    started_s = time.monotonic()
    for game in games:
        assert calls.make(game, "play", {"number": 1}, never) == 10
        both = asyncio.gather
        results = asyncio.run_coroutine_threadsafe(_both(waited(game, 2), waited(game, 3), both), calls.loop()).result()
        assert results == [20, 30]
    assert time.monotonic() - started_s < 0.2 * ENVIRONMENTS
    assert all(game.made[0] == 1 and sorted(game.made[1:]) == [2, 3] for game in games)
    calls.settle()
    assert not calls.problem


async def _both(first: Any, second: Any, gather: Any) -> Any:
    return await gather(first, second)


def test_an_asynchronous_call_may_be_the_first(calls: ConcurrentCalls, games: list[Game]) -> None:
    calls.expect(lambda: [(game, [call(game, "wait", 1)]) for game in games])
    started_s = time.monotonic()
    for game in games:
        work = calls.make_awaited(game, "wait", {"number": 1}, never)
        assert asyncio.run_coroutine_threadsafe(work, calls.loop()).result() == 10
    assert time.monotonic() - started_s < 0.2 * ENVIRONMENTS


def test_calls_that_nobody_asks_for_and_calls_that_nobody_expected_are_told(calls: ConcurrentCalls) -> None:
    game = Game(threading.Barrier(1))
    calls.expect(lambda: [(game, [call(game, "play", 1)])])
    assert calls.make(game, "play", {"number": 2}, lambda: "alone") == "alone"
    assert "called play when that wasn't expected" in calls.problem
    calls.problem = ""
    calls.settle()
    assert "never asked for" in calls.problem


def test_without_a_plan_each_call_is_made_when_it_is_asked_for(calls: ConcurrentCalls) -> None:
    assert calls.make(object(), "play", {}, lambda: "alone") == "alone"
    assert not calls.problem


def test_each_item_is_handled_and_an_error_waits_for_the_others(calls: ConcurrentCalls) -> None:
    seen: list[int] = []

    def handle(number: int) -> None:
        if number == 0:
            raise OSError("no")
        time.sleep(0.05)
        seen.append(number)

    with pytest.raises(OSError, match="no"):
        calls.each(handle, range(5))
    assert sorted(seen) == [1, 2, 3, 4]
