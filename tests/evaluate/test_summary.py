"""Figures of an evaluation: in the game's own terms, and each game counted once where that is right."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agent import plain_env
from trl_envs.agent.terms import build_terms
from trl_envs.config.compose import compose
from trl_envs.envs.catch import CatchEnv
from trl_envs.envs.echo import EchoEnv
from trl_envs.envs.episode import Episode, Event
from trl_envs.envs.sudoku import SudokuEnv
from trl_envs.envs.wordle import WordleEnv
from trl_envs.evaluate.batches import ScoredEpisode
from trl_envs.evaluate.loop import Rollout
from trl_envs.evaluate.summary import GameTerms, summarize
from trl_envs.results.statistics import wilson


def scored(
    opening: str, seed: int, facts: dict[str, Any], events: tuple[Event, ...] = (), **rewards: float | None
) -> ScoredEpisode:
    episode = Episode("catch", seed, list(events), facts=facts)
    rollout = Rollout({}, None, {}, prompt=[{"role": "user", "content": opening}], completion_ids=[1, 2, 3])
    return ScoredEpisode(episode, rollout, {f"catch.{name}": value for name, value in rewards.items()})


def catch(opening: str, seed: int, caught: bool) -> ScoredEpisode:
    return scored(opening, seed, {"caught": caught, "moves": 9}, caught=float(caught))


def test_greedy_play_of_one_game_twice_is_one_observation() -> None:
    terms = build_terms(compose(["recipe=catch"]).config.envs)
    starts = ["ball 1"] * 6 + ["ball 2"] * 3 + ["ball 3"]
    played = [catch(start, seed, start == "ball 1") for seed, start in enumerate(starts)]
    once = summarize("catch", played, terms, GameTerms.of(CatchEnv), by_game=True)
    assert (once.episodes, once.games, once.by_game) == (10, 3, True)
    assert once.wins is not None and once.wins == once.terms["caught"] == once.reward
    assert (once.wins.n, once.wins.mean) == (3, 1 / 3)
    assert (once.wins.low, once.wins.high) == wilson(1, 3)
    each = summarize("catch", played, terms, GameTerms.of(CatchEnv))
    assert each.wins is not None and (each.wins.n, each.wins.mean, each.games) == (10, 0.6, 3)
    # Rounding may make two of one game after all: the game counts with their mean.
    mixed = summarize("catch", [*played, catch("ball 3", 11, True)], terms, GameTerms.of(CatchEnv), by_game=True)
    assert mixed.wins is not None and (mixed.wins.n, mixed.wins.mean, mixed.wins.share) == (3, 0.5, False)


def guess(word: str, feedback: str) -> Event:
    return Event("guess", {"guess": word}, feedback)


def test_games_are_told_apart_by_what_they_show() -> None:
    wordle = GameTerms.of(WordleEnv)
    facts = {"guesses": 1, "won": False, "invalid": 0}
    same = [scored("rules", seed, facts, (guess("crane", "GXXXX"),)) for seed in (1, 2)]
    other = scored("rules", 3, facts, (guess("crane", "XXXXG"),))
    silent = [scored("rules", seed, {**facts, "guesses": 0}) for seed in (4, 5)]
    games = [wordle.game_of(one) for one in (*same, other, *silent)]
    assert games[0] == games[1] and len(set(games)) == 4
    for target in (SudokuEnv, EchoEnv, CatchEnv):
        assert GameTerms.of(target).game_of(same[0]) == "rules"
    unknown = GameTerms.of(plain_env.Plain)
    assert unknown.game_of(same[0]) == unknown.game_of(same[1]) != unknown.game_of(other)
    assert unknown.game_of(silent[0]) != unknown.game_of(silent[1])


@pytest.mark.parametrize(
    ("target", "facts", "figures"),
    [
        (WordleEnv, {"won": True, "guesses": 3, "invalid": 2}, {"guesses per win": 3, "invalid guesses": 2}),
        (WordleEnv, {"won": False, "guesses": 6, "invalid": 0}, {"guesses per win": None, "invalid guesses": 0}),
        (SudokuEnv, {"filled": 4, "moves": 6, "accepted": 4}, {"cells filled": 4, "invalid moves": 2}),
        (CatchEnv, {"caught": True}, {"invalid actions": 0}),
        (plain_env.Plain, {}, {"invalid actions": 0}),
    ],
    ids=["a word found", "a word not found", "sudoku", "catch", "a class that says nothing"],
)
def test_games_have_figures_of_their_own(target: type, facts: dict[str, Any], figures: dict[str, float]) -> None:
    assert dict(GameTerms.of(target).figures_of(scored("", 1, facts))) == figures


def test_guesses_per_win_are_those_of_the_games_won() -> None:
    facts = [{"won": won, "guesses": guesses, "invalid": 1} for won, guesses in ((True, 3), (False, 6), (True, 4))]
    found = summarize("catch", [scored("", n, one) for n, one in enumerate(facts)], [], GameTerms.of(WordleEnv))
    assert (found.figures["guesses per win"].mean, found.figures["guesses per win"].n) == (3.5, 2)
    assert found.figures["invalid guesses"].n == 3 and found.reward is not None and found.reward.n == 0
