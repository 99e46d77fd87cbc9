"""From scored episodes to the figures of an evaluation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from trl_envs.agent.targets import find_beside
from trl_envs.agent.terms import RewardTerm
from trl_envs.envs.episode import Episode
from trl_envs.evaluate.batches import ScoredEpisode
from trl_envs.evaluate.lints import weighted_sum
from trl_envs.results.evaluation import EnvironmentResult
from trl_envs.results.statistics import Estimate, estimate

# What games call a won episode among their facts.
WIN_FACTS = ("won", "caught", "solved")
# A game's own functions, in a module of this name beside its environment class.
MODULE, FIGURES, GAME = "figures", "figures", "game"


@dataclass(frozen=True)
class GameTerms:
    """How a game is told in its own terms.

    Args:
        figures: Its own figures of an episode by name, None where an episode has none; None stands for those of any
            game.
        game: What tells this game from others, by the episode and the first message; None stands for the play itself.
    """

    figures: Callable[[Episode], Mapping[str, float | None]] | None = None
    game: Callable[[Episode, str], str] | None = None

    @classmethod
    def of(cls, target: type) -> GameTerms:
        """What the module `figures` beside an environment class says, if there is one.

        Args:
            target: The class.
        """
        return cls(find_beside(target, MODULE, FIGURES), find_beside(target, MODULE, GAME))

    def figures_of(self, one: ScoredEpisode) -> Mapping[str, float | None]:
        """An episode's own figures."""
        if self.figures is not None:
            return self.figures(one.episode)
        return {"invalid actions": invalid_actions(one.episode, one.rollout.tool_failures)}

    def game_of(self, one: ScoredEpisode) -> str:
        """Names the game. Of a class that doesn't say, games are the same that answered the same to the same calls."""
        opening = str(one.rollout.prompt[-1]["content"]) if one.rollout.prompt else ""
        if self.game is not None:
            return self.game(one.episode, opening)
        answers = [f"{event.tool} {event.arguments} {event.result or event.error}" for event in one.episode.events]
        return "\n".join([opening, *answers]) if answers else f"seed {one.episode.seed}"


def summarize(
    environment: str,
    played: Sequence[ScoredEpisode],
    terms: Sequence[RewardTerm],
    game: GameTerms | None = None,
    *,
    by_game: bool = False,
) -> EnvironmentResult:
    """The figures of one environment.

    Args:
        environment: Its name in the recipe.
        played: Its episodes, lost ones included.
        terms: Reward terms of the run.
        game: How the game is told; None takes what fits any.
        by_game: Whether the player does the same in the same game, so that playing it twice is one observation.
    """
    game = game or GameTerms()
    kept = [one for one in played if one.episode.lost is None]
    games = [game.game_of(one) for one in kept]

    def mean(value: Callable[[ScoredEpisode], float | None]) -> Estimate:
        return _estimate(zip(games, map(value, kept), strict=True), by_game=by_game)

    own = [term for term in terms if term.environment == environment]
    weights = {term.full_name: term.weight for term in own}
    figures = [game.figures_of(one) for one in kept]
    return EnvironmentResult(
        episodes=len(played),
        lost=len(played) - len(kept),
        terms={term.name: mean(lambda one, name=term.full_name: one.rewards[name]) for term in own},  # type: ignore[misc]
        wins=mean(_won(fact)) if (fact := _win_fact(kept)) else None,
        turns=mean(lambda one: one.rollout.turns),
        tokens=mean(lambda one: one.rollout.tokens),
        tool_calls=sum(one.rollout.tool_calls for one in kept),
        tool_failures=sum(one.rollout.tool_failures for one in kept),
        games=len(set(games)),
        by_game=by_game,
        figures={
            name: _estimate(zip(games, (one[name] for one in figures), strict=True), by_game=by_game)
            for name in (figures[0] if figures else ())
        },
        reward=mean(lambda one: weighted_sum(one.rewards, weights)),
    )


def _estimate(values: Iterable[tuple[str, float | None]], *, by_game: bool) -> Estimate:
    """The mean of what has a value: of each episode or, by game, of each game's mean.

    Args:
        values: Games and values, an episode each.
        by_game: Whether a game counts once.
    """
    found = [(game, value) for game, value in values if value is not None]
    if not by_game:
        return estimate([value for _, value in found])
    grouped: dict[str, list[float]] = {}
    for game, value in found:
        grouped.setdefault(game, []).append(value)
    return estimate([fmean(group) for group in grouped.values()])


def _win_fact(kept: Sequence[ScoredEpisode]) -> str | None:
    return next((fact for fact in WIN_FACTS if any(fact in one.episode.facts for one in kept)), None)


def _won(fact: str) -> Callable[[ScoredEpisode], float]:
    return lambda one: float(bool(one.episode.facts.get(fact)))


def invalid_actions(episode: Episode, failed_calls: int) -> int:
    """Calls that failed, or those that the game counted as invalid moves, if these are more.

    Args:
        episode: The played episode.
        failed_calls: Calls whose result was an error.
    """
    facts: Mapping[str, Any] = episode.facts
    refused = facts["moves"] - facts["accepted"] if {"moves", "accepted"} <= set(facts) else facts.get("invalid", 0)
    return max(failed_calls, int(refused))
