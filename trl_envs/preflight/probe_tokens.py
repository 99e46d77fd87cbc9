"""Scripted games of each environment, counted in the tokens of the model that will play."""

from __future__ import annotations

import dataclasses
import functools
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trl_envs.agent.chat import ChatFormat
from trl_envs.agent.dataset import episode_seed, messages
from trl_envs.agent.policies import Policy
from trl_envs.config.grpo_fields import grpo_value
from trl_envs.config.schema import TrainConfig
from trl_envs.preflight.probe_env import Candidate
from trl_envs.preflight.probe_play import Played, own_player, play, script
from trl_envs.preflight.probe_report import Collector
from trl_envs.preflight.token_rules import Games, Limits, Spread, token_findings

# Games of each player, and the seconds after which one goes on with what has been played.
GAMES = 8
GAMES_BUDGET_S = 5.0
# Long enough for the emptiest grid of sudoku; an environment that never ends is left after so many calls.
LONGEST_GAME = 100
_LAST_WORD = {"role": "assistant", "content": "Done."}


@dataclass(frozen=True)
class Counted:
    """One game in tokens; fields as in Games."""

    prompt: int
    completion: int
    calls: int
    first_turn: int


def check_tokens(
    config: TrainConfig,
    candidates: Sequence[Candidate],
    servers: Mapping[str, Any],
    chat: ChatFormat,
    positions: int | None,
    mode: str,
    collector: Collector,
) -> dict[str, list[Games]]:
    """Counts games of every environment and holds them against the run's limits.

    Args:
        config: The run's config.
        candidates: Environments that play.
        servers: `environments` of plan.json.
        chat: The model's chat format.
        positions: The length that the model was made for.
        mode: How it generates.
        collector: Takes findings and the figure `tokens`.

    Returns:
        Games by environment, the player whose games have to fit first.
    """
    limits = Limits.of(config, positions=positions, thinks=chat.thinks(), mode=mode)
    found: dict[str, list[Games]] = {}
    for candidate in candidates:
        number = 1 if servers[candidate.name]["shared"] else GAMES
        players = [_games(candidate, player, policy, number, chat, collector) for player, policy in _players(candidate)]
        found[candidate.name] = [games for games in players if games is not None]
        allowed = config.rollout.allow_cut_episodes
        for finding in token_findings(candidate.name, found[candidate.name], limits, allow_cut=allowed):
            collector.add(finding.level, finding.key, finding.message, finding.hint)
    games_as_dicts = {name: [dataclasses.asdict(games) for games in several] for name, several in found.items()}
    collector.figure("tokens", {"games": games_as_dicts, "limits": dataclasses.asdict(limits)})
    return found


def template_kwargs(config: TrainConfig) -> dict[str, Any]:
    """`grpo.chat_template_kwargs`, which may also be JSON in a text."""
    kwargs = grpo_value(config.grpo, "chat_template_kwargs") or {}
    return dict(json.loads(kwargs) if isinstance(kwargs, str) else kwargs)


def _players(candidate: Candidate) -> list[tuple[str, Policy]]:
    """The game's own players, the one that plays to the end first; without any, each tool called once."""
    own = [(name, own_player(candidate, attribute)) for name, attribute in _NAMES.items()]
    return [(name, policy) for name, policy in own if policy is not None] or [("script", script(candidate))]


_NAMES = {"solver": "solver", "random": "random_policy"}


def _games(
    candidate: Candidate, player: str, policy: Policy, number: int, chat: ChatFormat, collector: Collector
) -> Games | None:
    count = _Counter(candidate, chat)
    counted: list[Counted] = []
    give_up_at_s = time.monotonic() + GAMES_BUDGET_S
    for index in range(number):
        seed = episode_seed(candidate.config.seed, candidate.name, index)
        played = play(candidate, policy, seed, collector, most_calls=LONGEST_GAME)
        if played is None:
            return None
        counted.append(count(played))
        if time.monotonic() > give_up_at_s:
            break
    return Games(
        player,
        len(counted),
        prompt=Spread.of([game.prompt for game in counted]),
        completion=Spread.of([game.completion for game in counted]),
        calls=Spread.of([game.calls for game in counted]),
        first_turn=min(game.first_turn for game in counted),
    )


class _Counter:
    """Counts a game as GRPOTrainer would see it; the same turn is rendered once."""

    def __init__(self, candidate: Candidate, chat: ChatFormat) -> None:
        self._messages = messages(candidate.config)
        instance = candidate.build()
        self._tools = [getattr(instance, tool) for tool in candidate.schemas]
        self._chat = chat
        self._size = functools.cache(self._render)

    def __call__(self, played: Played) -> Counted:
        prompt = [*self._messages[:-1], {**self._messages[-1]}]
        prompt[-1]["content"] += played.observation
        sizes = [self._size(json.dumps(message, sort_keys=True)) for message in played.conversation]
        return Counted(
            prompt=len(self._chat.prompt_ids(prompt, self._tools)),
            completion=sum(sizes) + self._size(json.dumps(_LAST_WORD)),
            calls=len(played.step_s),
            first_turn=sum(sizes[:2]),
        )

    def _render(self, message: str) -> int:
        content = json.loads(message)
        if content["role"] == "tool":
            return len(self._chat.result_ids([content]))
        return len(self._chat.turn_ids(content))
