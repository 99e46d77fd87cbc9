"""Many episodes, a batch at a time: played, scored by every term, and no session left open."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from trl_envs.agent.dataset import build_rows, episode_seed
from trl_envs.agent.terms import RewardTerm, reward_function
from trl_envs.config.schema import EnvConfig
from trl_envs.envs.episode import Episode
from trl_envs.envs.game import end_episode
from trl_envs.evaluate.loop import Rollout

# No environment can have this before its name: names have no slash.
EVALUATED = "eval"


@dataclass(frozen=True)
class ScoredEpisode:
    """A played episode and what the terms make of it.

    Args:
        episode: The environment's record.
        rollout: The model's side; its environment may be at another episode by now.
        rewards: Values of the environment's own terms by full name, unweighted; None is unscored.
    """

    episode: Episode
    rollout: Rollout
    rewards: dict[str, float | None]


class PlaysEpisodes(Protocol):
    """What plays: a model (`Player`) or a script (`ScriptedPlayer`)."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Runs async tools and terms."""

    def play(self, environments: Sequence[Any], rows: Sequence[Mapping[str, Any]]) -> list[Rollout]:
        """Plays one episode in each environment; the sessions are left open, for scoring."""


def play_rows(
    player: PlaysEpisodes,
    factory: Callable[[], Any],
    terms: Sequence[RewardTerm],
    rows: Sequence[Mapping[str, Any]],
    batch_size: int,
) -> Iterator[list[ScoredEpisode]]:
    """Plays rows of one environment, and gives each batch when it has been scored.

    Args:
        player: Plays them.
        factory: Makes instances of the environment; each is used for one episode a batch.
        terms: Reward terms of the environment; others have nothing to score.
        rows: As `build_rows` makes them.
        batch_size: Episodes at once, and so sessions open at once.
    """
    environments: list[Any] = []
    for start in range(0, len(rows), batch_size):
        batch = rows[start : start + batch_size]
        environments += [factory() for _ in range(len(batch) - len(environments))]
        try:
            rollouts = player.play(environments[: len(batch)], batch)
            rewards = score(rollouts, terms, player.loop)
            yield [ScoredEpisode(one.episode, one, scores) for one, scores in zip(rollouts, rewards, strict=True)]
        finally:
            for environment in environments:
                end_episode(environment)


def score(
    rollouts: Sequence[Rollout], terms: Sequence[RewardTerm], loop: asyncio.AbstractEventLoop
) -> list[dict[str, float | None]]:
    """Values of each episode's own terms, by the functions and with the arguments that TRL gets in training.

    Raises:
        TrainingFailed: A term failed, or returned no number.
    """
    columns = {name: [rollout.row[name] for rollout in rollouts] for name in rollouts[0].row if name != "prompt"}
    batch = {
        **columns,
        "prompts": [rollout.prompt for rollout in rollouts],
        "completions": [rollout.completion for rollout in rollouts],
        "completion_ids": [rollout.completion_ids for rollout in rollouts],
        "environments": [rollout.environment for rollout in rollouts],
        # There is no training here: no state, and no metrics to log to.
        "trainer_state": None,
        "log_extra": lambda column, values: None,
        "log_metric": lambda name, value: None,
    }
    rewards: list[dict[str, float | None]] = [{} for _ in rollouts]
    for term in terms:
        values = reward_function(term)(**batch)
        if inspect.isawaitable(values):
            values = asyncio.run_coroutine_threadsafe(_awaited(values), loop).result()
        for rollout, scores, value in zip(rollouts, rewards, values, strict=True):
            if term.environment == rollout.episode.environment:
                scores[term.full_name] = value
    return rewards


async def _awaited(values: Any) -> Any:
    return await values


def evaluation_rows(name: str, env: EnvConfig, seed: int, episodes: int) -> list[dict[str, Any]]:
    """Rows to evaluate one environment on, none with a seed that is trained on.

    Args:
        name: The environment's name in the recipe.
        env: Its config; its own rows are what training uses.
        seed: From which the episode seeds are derived.
        episodes: Number of rows.
    """
    trained = {row["seed"] for row in build_rows({name: env})}
    # Derived from another word than training's, so that no run of any length or seed shares them but by chance. Of so
    # many seeds each trained one can stand for itself at most.
    spare = replace(env, seed=seed, episodes=episodes + len(trained))
    seeds = [episode_seed(seed, f"{EVALUATED}/{name}", index) for index in range(spare.episodes)]
    rows = [{**row, "seed": seed} for row, seed in zip(build_rows({name: spare}), seeds, strict=True)]
    return [row for row in rows if row["seed"] not in trained][:episodes]
