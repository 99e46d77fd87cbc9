"""From scored episodes to the figures of an evaluation."""

from __future__ import annotations

from collections.abc import Sequence

from trl_envs.agent.terms import RewardTerm
from trl_envs.evaluate.batches import ScoredEpisode
from trl_envs.results.evaluation import EnvironmentResult
from trl_envs.results.statistics import Estimate, estimate

# What games call a won episode among their facts.
WIN_FACTS = ("won", "caught", "solved")


def summarize(environment: str, played: Sequence[ScoredEpisode], terms: Sequence[RewardTerm]) -> EnvironmentResult:
    """The figures of one environment.

    Args:
        environment: Its name in the recipe.
        played: Its episodes, lost ones included.
        terms: Reward terms of the run.
    """
    kept = [one for one in played if one.episode.lost is None]
    own = {term.name: term.full_name for term in terms if term.environment == environment}
    return EnvironmentResult(
        episodes=len(played),
        lost=len(played) - len(kept),
        terms={
            name: estimate([value for one in kept if (value := one.rewards[full_name]) is not None])
            for name, full_name in own.items()
        },
        wins=_wins(kept),
        turns=estimate([one.rollout.turns for one in kept]),
        tokens=estimate([len(one.rollout.completion_ids) for one in kept]),
        tool_calls=sum(one.rollout.tool_calls for one in kept),
        tool_failures=sum(one.rollout.tool_failures for one in kept),
    )


def _wins(kept: Sequence[ScoredEpisode]) -> Estimate | None:
    for fact in WIN_FACTS:
        if any(fact in one.episode.facts for one in kept):
            return estimate([float(bool(one.episode.facts.get(fact))) for one in kept])
    return None
