"""Signs in the metrics that a run can't learn: one rule a sign, each with its own sentence and an override to try.

A rule reads the lines of the last steps (and those before them) and says nothing if it sees nothing. Names of metrics:
metrics.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from statistics import fmean, pstdev

from trl_envs.results.metrics import number_of
from trl_envs.results.signs import Sign, Stretch

# Shares of episodes, calls or groups from which on a sign is one.
MOST_CLIPPED = 0.95
MOST_FAILURES = 0.5
MOST_DIFFERING = 0.5
# What is left of tool calls or entropy, as a share of the beginning, when they count as gone.
VANISHED_CALLS = 0.1
VANISHED_ENTROPY = 0.05
# Nats a token: a model that has learnt a small game well has a little more.
LOWEST_ENTROPY = 0.01
# The spread of a sum, as a share of that of its parts, when these cancel each other.
CANCELLED = 0.1
SAME = 1e-6


def find_signs(stretch: Stretch) -> list[Sign]:
    """Every sign in a stretch; what only follows from another one is left out."""
    found = [sign for rule in (*CAUSES, *WARNINGS) if (sign := rule(stretch)) is not None]
    if not any(sign.name in _EXPLAINING for sign in found):
        found += [sign for rule in CONSEQUENCES if (sign := rule(stretch)) is not None]
    return found


def all_lost(stretch: Stretch) -> Sign | None:
    """No episode came to its end."""
    played, lost = sum(stretch.values("episodes/played")), sum(stretch.values("episodes/lost"))
    if not played or lost < played:
        return None
    message = f"all {played:.0f} episodes of the last {stretch.steps} steps were lost: there is nothing to compare"
    return Sign("all_lost", message, "look at logs/server-*.log and at `lost` in episodes.jsonl; server=local")


def unscored(stretch: Stretch) -> Sign | None:
    """Every term returned None for every episode, lost ones aside."""
    terms = stretch.terms()
    if not terms or all_lost(stretch) or any(stretch.values(f"rewards/{term}/mean") for term in terms):
        return None
    environment, _, name = terms[0].partition(".")
    return Sign(
        "unscored",
        f"no episode of the last {stretch.steps} steps was scored: {_listed(terms)} returned None for all of them",
        f"return a number from the function that envs.{environment}.rewards.{name}._target_ names; trl-env baseline "
        f"recipe={stretch.numbers.recipe} shows for which episodes it doesn't",
    )


def no_calls(stretch: Stretch) -> Sign | None:
    """The model has not called a tool for as long as can be seen, or not any more."""
    key = "tools/call_frequency"
    if not stretch.values(key):
        return None
    now, first = fmean(stretch.values(key)), stretch.first(key)
    if first and now < VANISHED_CALLS * first:
        return Sign(
            "calls_vanished",
            f"the model has stopped calling tools: {first:.2f} calls an episode at first, {now:.2f} in the last "
            f"{stretch.steps} steps",
            f"{_gentler(stretch)}; trl-env baseline recipe={stretch.numbers.recipe} says whether doing nothing is "
            "what the reward likes best",
        )
    if now > 0:
        return None
    return Sign(
        "no_calls",
        f"the model has called no tool in the last {stretch.steps} steps: every episode ended before it began",
        "try a model that knows how to call tools, model=Qwen/Qwen3-1.7B, or "
        "'grpo.chat_template_kwargs={enable_thinking: false}' if it spends its tokens on thinking; completions/ holds "
        "what it says",
    )


def clipped(stretch: Stretch) -> Sign | None:
    """Episodes run into the limit of tokens."""
    key = "completions/clipped_ratio"
    if not stretch.always(key, lambda share: share >= MOST_CLIPPED):
        return None
    limit = stretch.numbers.max_completion_length
    return Sign(
        "clipped",
        f"{fmean(stretch.values(key)):.0%} of the episodes of the last {stretch.steps} steps were cut off at "
        f"grpo.max_completion_length{'' if limit is None else f'={limit}'} tokens, tool results included",
        f"grpo.max_completion_length={2 * (limit or 512)}, or 'grpo.chat_template_kwargs={{enable_thinking: false}}'"
        " if the model thinks too long",
    )


def failures(stretch: Stretch) -> Sign | None:
    """Most tool calls end in an error."""
    key = "tools/failure_frequency"
    called = stretch.always("tools/call_frequency", lambda calls: calls > 0)
    if not called or not stretch.always(key, lambda share: share > MOST_FAILURES):
        return None
    return Sign(
        "tool_failures",
        f"{fmean(stretch.values(key)):.0%} of the tool calls of the last {stretch.steps} steps failed",
        "`error` in episodes.jsonl says why; say in envs.NAME.prompt how the tools are called, or mend the tool",
    )


def cancelling(stretch: Stretch) -> Sign | None:
    """Two terms, or all of them together, cancel each other."""
    spread = {term: deviations for term in stretch.terms() if any(deviations := stretch.weighted(term, "std"))}
    largest = max((abs(value) for deviations in spread.values() for value in deviations), default=0.0)
    totals = stretch.values("reward_std")
    if len(spread) > 1 and totals and max(totals) <= CANCELLED * largest:
        return _cancel_sign(stretch, list(spread))
    for one, other in combinations(spread, 2):
        if one.partition(".")[0] != other.partition(".")[0]:
            # Different episodes: nothing is taken from one by the other.
            continue
        means, others = stretch.weighted(one, "mean"), stretch.weighted(other, "mean")
        # Fewer points lie on a line by chance.
        if len(means) != len(others) or len(means) < 4:
            continue
        least = min(pstdev(means), pstdev(others))
        both = pstdev([a + b for a, b in zip(means, others, strict=True)])
        if least > SAME and both <= CANCELLED * least:
            return _cancel_sign(stretch, [one, other])
    return None


def differing_games(stretch: Stretch) -> Sign | None:
    """The rollouts of a group don't play the same game."""
    shares = stretch.values("groups/differing_games")
    if not shares or fmean(shares) < MOST_DIFFERING:
        return None
    return Sign(
        "ignored_seed",
        f"the same first move had different results within {fmean(shares):.0%} of the groups of the last "
        f"{stretch.steps} steps: the server ignores the episode's seed, and GRPO compares different games",
        "envs.NAME.url=null server=local plays on the embedded server, which honours reset(seed=...)",
    )


def entropy(stretch: Stretch) -> Sign | None:
    """The model has become certain of everything, while it isn't at its best."""
    values, first = stretch.values("entropy"), stretch.first("entropy")
    if not values or not first or _at_its_best(stretch):
        return None
    now = fmean(values)
    if now > LOWEST_ENTROPY or now > VANISHED_ENTROPY * first:
        return None
    return Sign(
        "entropy_collapsed",
        f"the entropy of the model's tokens has collapsed from {first:.3f} to {now:.4f}: it says the same every time",
        f"{_gentler(stretch)}, or grpo.temperature={1.2 * stretch.numbers.temperature:.2g}",
    )


def constant(stretch: Stretch) -> Sign | None:
    """The same reward in every episode."""
    if not _no_spread(stretch) or not stretch.always("reward_std", lambda std: std <= SAME) or _at_its_best(stretch):
        return None
    values = stretch.values("reward")
    if max(values) - min(values) > SAME:
        return _same_within_groups(stretch)
    return Sign(
        "constant_reward",
        f"the reward was {values[-1]:.2f} in every episode of the last {stretch.steps} steps "
        f"({_listed(stretch.terms())}): without a difference there is no gradient",
        f"trl-env baseline recipe={stretch.numbers.recipe} shows which term never changes; add one for part of the "
        "way, or begin with an easier game or a warmed-up model",
    )


def no_spread(stretch: Stretch) -> Sign | None:
    """Groups differ from each other, never within."""
    if not _no_spread(stretch) or stretch.always("reward_std", lambda std: std <= SAME) or _at_its_best(stretch):
        return None
    return _same_within_groups(stretch)


# Most specific first; those of the second row don't explain why a reward is constant.
CAUSES = (all_lost, unscored, no_calls, clipped, cancelling)
WARNINGS = (failures, differing_games, entropy)
CONSEQUENCES = (constant, no_spread)
_EXPLAINING = {"all_lost", "unscored", "no_calls", "calls_vanished", "clipped", "cancelling"}


def _no_spread(stretch: Stretch) -> bool:
    return stretch.always("frac_reward_zero_std", lambda share: share >= 1.0) and bool(stretch.values("reward"))


def _at_its_best(stretch: Stretch) -> bool:
    """Whether the reward has varied, and is now as high as it has ever been: a game that is learnt has no spread."""
    earlier = [value for line in stretch.before if (value := number_of(line, "reward")) is not None]
    values = stretch.values("reward")
    return bool(values and earlier) and fmean(values) >= max(earlier) - SAME and min(earlier) < max(earlier) - SAME


def _same_within_groups(stretch: Stretch) -> Sign:
    numbers = stretch.numbers
    return Sign(
        "no_spread",
        f"all rollouts of a group scored the same in the last {stretch.steps} steps, though the groups differ: only "
        "the seed decides the reward",
        f"grpo.temperature={1.25 * numbers.temperature:.3g} or grpo.num_generations={2 * numbers.num_generations}; if "
        "neither helps, the reward doesn't depend on what the model does",
    )


def _cancel_sign(stretch: Stretch, terms: Sequence[str]) -> Sign:
    environment, _, name = terms[-1].partition(".")
    weight = stretch.numbers.weights.get(terms[-1], 1.0)
    return Sign(
        "cancelling",
        f"the reward terms {_listed(terms)} cancelled each other in the last {stretch.steps} steps: what one gives "
        "the other takes",
        f"envs.{environment}.rewards.{name}.weight={weight / 4:g}, or 0 to leave that term out",
    )


def _gentler(stretch: Stretch) -> str:
    return f"grpo.learning_rate={stretch.numbers.learning_rate / 4:g} or grpo.beta=0.02"


def _listed(terms: Sequence[str]) -> str:
    return " and ".join([", ".join(terms[:-1]), terms[-1]] if len(terms) > 1 else terms)
