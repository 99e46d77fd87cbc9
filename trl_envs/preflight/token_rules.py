"""Whether episodes fit into the run's limits, from scripted games counted in the model's own tokens. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trl_envs.config.grpo_fields import grpo_value
from trl_envs.config.schema import TrainConfig
from trl_envs.preflight.findings import Finding, Level

# What a turn's thoughts are taken to need where thinking is on. A guess: nobody knows before the model has played, so
# that this allowance is only ever a reason for a warning.
THINKING_TOKENS = 256
# An episode that leaves less than this share of its limit unused is a tight one: the script wastes no words.
SPARE = 0.1
_ROUND_TO = 128


@dataclass(frozen=True)
class Spread:
    """Median and 95th percentile (nearest rank) of some whole numbers."""

    median: int
    p95: int

    @classmethod
    def of(cls, values: Sequence[int]) -> Spread:
        """The spread of one value or more."""
        ranked = sorted(values)
        return cls(round(statistics.median(ranked)), ranked[-(-95 * len(ranked) // 100) - 1])


@dataclass(frozen=True)
class Games:
    """Games of one scripted player in one environment.

    Args:
        player: solver, random, or script (each tool called once: what a game takes at least).
        episodes: How many games.
        prompt: Tokens of the prompt, tools and first observation included.
        completion: Tokens of everything behind it: calls, results and a last word, no thoughts.
        calls: Tool calls.
        first_turn: Tokens of the first call and its result, at the least.
    """

    player: str
    episodes: int
    prompt: Spread
    completion: Spread
    calls: Spread
    first_turn: int

    def completion_with(self, thinking: int) -> int:
        """95th percentile of the completion's tokens, with so many tokens of thoughts in each turn."""
        return self.completion.p95 + thinking * (self.calls.p95 + 1)


@dataclass(frozen=True)
class Limits:
    """What an episode must fit into, in tokens; None is no limit.

    Args:
        completion: grpo.max_completion_length.
        calls: grpo.max_tool_calling_iterations.
        positions: The length that the model was made for, prompt included.
        vllm: grpo.vllm_max_model_length, prompt included, if vLLM runs in the trainer.
        thinking: Tokens of thoughts allowed for in each turn; 0 where thinking is off.
    """

    completion: int | None
    calls: int | None
    positions: int | None
    vllm: int | None
    thinking: int

    @classmethod
    def of(cls, config: TrainConfig, *, positions: int | None, thinks: bool, mode: str) -> Limits:
        """The limits of a run.

        Args:
            config: Its config.
            positions: Of the model.
            thinks: Whether the model is asked to think.
            mode: How it generates: single, colocate or server.
        """
        vllm = grpo_value(config.grpo, "vllm_max_model_length") if mode == "colocate" else None
        return cls(
            completion=_whole(grpo_value(config.grpo, "max_completion_length")),
            calls=_whole(grpo_value(config.grpo, "max_tool_calling_iterations")),
            positions=positions,
            vllm=_whole(vllm),
            thinking=THINKING_TOKENS if thinks else 0,
        )


def token_findings(name: str, games: Sequence[Games], limits: Limits, *, allow_cut: bool) -> list[Finding]:
    """What speaks against the limits of a run.

    The first player is the one whose games have to fit, since it plays them to their end. A limit that cuts 1 in 20 of
    them off is an error, unless the run says that it may (rollout.allow_cut_episodes, as preset=smoke does); one that
    leaves no room for a single call and its result always is.

    Args:
        name: The environment.
        games: Its games, one entry a player.
        limits: What they must fit into.
        allow_cut: Whether episodes may be cut off.
    """
    if not games:
        return []
    level: Level = "warning" if allow_cut else "error"
    found = [*_completion(name, games, limits, level), *_calls(name, games[0], limits, level)]
    for key, limit, whose in (
        ("grpo.max_completion_length", limits.positions, "the model was made for"),
        ("grpo.vllm_max_model_length", limits.vllm, "vLLM takes (grpo.vllm_max_model_length)"),
    ):
        if limit is not None:
            found += _context(name, games[0], limits, (key, limit, whose), level)
    return found


def fitting_length(games: Sequence[Games], limits: Limits) -> int:
    """A completion length with some room for all games, thoughts included; at most what the model was made for."""
    wanted = max(_roomy(game, limits.thinking) for game in games)
    wanted += -wanted % _ROUND_TO
    prompt = games[0].prompt.p95
    return wanted if limits.positions is None else max(min(wanted, limits.positions - prompt), 1)


def _completion(name: str, games: Sequence[Games], limits: Limits, level: Level) -> Iterator[Finding]:
    key, length = "grpo.max_completion_length", limits.completion
    if length is None:
        return
    first, fit = games[0], fitting_length(games, limits)
    least, needed = min(game.first_turn for game in games), max(_roomy(game, limits.thinking) for game in games)
    hint = f"set {key}={fit}"
    if fit < first.completion.p95:
        hint = f"no length fits the {limits.positions} tokens that the model was made for: choose another model="
    if length < least:
        message = f"{name}: a single tool call with its result takes {least} tokens, and {key}={length}"
        yield Finding("error", key, message, hint)
    elif length < first.completion.p95:
        message = (
            f"{name}: episodes of {first.completion.p95} tokens (95th percentile of {_said(first)}; median "
            f"{first.completion.median}) can't fit into {key}={length}: they are cut off before they end"
        )
        yield Finding(level, key, message, _or_allow(hint, level))
    elif length < needed:
        thoughts = f", with {limits.thinking} tokens of thoughts allowed for in each turn" if limits.thinking else ""
        message = f"{name}: {key}={length} is tight: episodes may need {needed} tokens{thoughts}"
        yield Finding("warning", key, message, f"{hint}, or leave it and watch completions/clipped_ratio")


def _calls(name: str, first: Games, limits: Limits, level: Level) -> Iterator[Finding]:
    key = "grpo.max_tool_calling_iterations"
    if limits.calls is None or first.calls.p95 <= limits.calls:
        return
    message = (
        f"{name}: episodes of {first.calls.p95} tool calls (95th percentile of {_said(first)}; median "
        f"{first.calls.median}) can't be played with {key}={limits.calls}"
    )
    yield Finding(level, key, message, _or_allow(f"set {key}={first.calls.p95 + 2}, or {key}=null", level))


def _context(name: str, first: Games, limits: Limits, context: tuple[str, int, str], level: Level) -> Iterator[Finding]:
    """Prompt and completion together against a length that a model or vLLM takes."""
    key, limit, whose = context
    prompt, length = first.prompt.p95, limits.completion
    needed = prompt + first.completion.p95
    wanted = prompt + (length if length is not None else first.completion.p95)
    vllm = key == "grpo.vllm_max_model_length"
    if needed > limit:
        what = f"a prompt of {prompt} and an episode of {first.completion.p95} tokens (95th percentile)"
        hint = f"set {key}={wanted}" if vllm else "choose a model= made for more tokens"
        yield Finding(level, key, f"{name}: {what} are more than the {limit} that {whose}", _or_allow(hint, level))
    elif wanted > limit:
        message = f"{name}: a prompt of {prompt} tokens and grpo.max_completion_length={length} are more than the "
        hint = f"set {key}={wanted}" if vllm else f"set {key}={max(limit - prompt, 1)} or less"
        yield Finding("warning", key, f"{message}{limit} that {whose}", hint)


def _said(games: Games) -> str:
    players = {"solver": "of the solver", "random": "of the random player"}
    return f"{games.episodes} games {players.get(games.player, 'in which each tool is called once')}"


def _or_allow(hint: str, level: Level) -> str:
    """The hint, with the way out for a run that isn't meant to learn; where it was taken, the hint says so."""
    if level == "warning":
        return f"{hint}; rollout.allow_cut_episodes=true lets the run go on as it is"
    return f"{hint}; or, if the run needn't learn, rollout.allow_cut_episodes=true"


def _roomy(game: Games, thinking: int) -> int:
    return game.completion_with(thinking) + int(SPARE * game.completion.p95)


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
