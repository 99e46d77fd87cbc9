"""Lints of a reward: what keeps GRPO from learning by it, found in games of scripted players before any training.

Pure functions over what was played. GRPO compares the weighted sum of the terms within groups of one seed; None counts
as nothing in that sum, and an episode in which every term is None as unscored (GRPOTrainer, TRL 1.16).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean, pstdev

from trl_envs.results.baseline import Lint
from trl_envs.results.statistics import Difference, difference, estimate

RANDOM, SOLVER, MODEL, NOTHING = "random", "solver", "model", "nothing"
# Played for the lints alone: groups of one seed, and one move made again and again.
GROUPS, STUBBORN = "groups", "stubborn"
# Values that differ by less are equal.
SAME = 1e-9
# Share of groups without spread from which on it isn't chance.
MOST_FLAT = 0.9
# The spread of a sum, as a share of the lesser one of its two parts, when these cancel each other.
CANCELLED = 0.1


@dataclass(frozen=True)
class Trial:
    """One episode as the lints see it; lost ones are none.

    Args:
        seed: Of the episode.
        calls: Tool calls made.
        rewards: Unweighted value of each term by its full name; None is unscored.
    """

    seed: int | None
    calls: int
    rewards: Mapping[str, float | None]


@dataclass(frozen=True)
class Trials:
    """All that was played of one environment.

    Args:
        environment: Its name in the recipe.
        weights: Weight of each of its terms by full name.
        players: Episodes by player; `GROUPS` are groups of one seed, played at random.
    """

    environment: str
    weights: Mapping[str, float]
    players: Mapping[str, Sequence[Trial]]

    def everything(self) -> list[Trial]:
        """All episodes."""
        return [trial for trials in self.players.values() for trial in trials]

    def values(self, term: str, *players: str) -> list[float]:
        """Weighted values of a term, unscored ones left out; of all players if none is named."""
        trials = [t for name in players for t in self.players.get(name, ())] if players else self.everything()
        return [self.weights[term] * value for t in trials if (value := t.rewards[term]) is not None]

    def total(self, trial: Trial) -> float | None:
        """The weighted sum that GRPO compares; None for an unscored episode."""
        return weighted_sum(trial.rewards, self.weights)

    def totals(self, player: str) -> list[float]:
        """The weighted sums of a player's episodes, unscored ones left out."""
        return [total for trial in self.players.get(player, ()) if (total := self.total(trial)) is not None]

    def change(self, before: str, after: str) -> Difference:
        """The weighted sum of one player minus that of another."""
        return difference(estimate(self.totals(before)), estimate(self.totals(after)))

    def varies(self, term: str) -> bool:
        """Whether a term has more than one value."""
        values = self.values(term)
        return bool(values) and max(values) - min(values) > SAME


def weighted_sum(rewards: Mapping[str, float | None], weights: Mapping[str, float]) -> float | None:
    """The sum that GRPO compares; None if no term scores the episode."""
    scored = [weights[term] * value for term, value in rewards.items() if value is not None]
    return sum(scored) if scored else None


def find_lints(trials: Trials) -> list[Lint]:
    """Everything that is wrong with the reward of one environment, worst first."""
    rules: tuple[Callable[[Trials], list[Lint]], ...] = (
        unscored,
        constant,
        cancelling,
        beaten_solver,
        doing_nothing,
        flat_groups,
    )
    return [lint for rule in rules for lint in rule(trials)]


def unscored(trials: Trials) -> list[Lint]:
    """Terms that return None for episodes that weren't lost."""
    lints = []
    for term in trials.weights:
        missing = [t for t in trials.everything() if t.rewards[term] is None]
        if not missing:
            continue
        total = len(trials.everything())
        message = (
            f"{term} returned None for {len(missing)} of {total} episodes that weren't lost{_who(trials, missing)}"
        )
        if len(missing) == total:
            message += ": it never scores anything"
        else:
            message += ": GRPO counts that as 0 beside the other terms, and leaves out what no term scores"
        hint = (
            f"return a number from the function that {_key(term)}._target_ names, 0.0 where there is nothing to reward"
        )
        lints.append(Lint("warning", "unscored", term, message, hint))
    return lints


def constant(trials: Trials) -> list[Lint]:
    """Terms with the same value in every episode, whoever plays."""
    lints = []
    for term in trials.weights:
        values = trials.values(term)
        if len(values) < 2 or trials.varies(term):
            continue
        value = values[0] / trials.weights[term]
        message = (
            f"{term} is {value:.3g} in all {len(values)} episodes, whoever plays: it has nothing to tell them apart"
        )
        hint = f"mend the function that {_key(term)}._target_ names, or leave the term out: {_key(term)}.weight=0"
        lints.append(Lint("warning", "constant", term, message, hint))
    return lints


def cancelling(trials: Trials) -> list[Lint]:
    """Pairs of terms of which one takes what the other gives."""
    lints = []
    for one, other in combinations([term for term in trials.weights if trials.varies(term)], 2):
        pairs = [
            (trials.weights[one] * a, trials.weights[other] * b)
            for t in trials.everything()
            if (a := t.rewards[one]) is not None and (b := t.rewards[other]) is not None
        ]
        if len(pairs) < 4:
            continue
        least = min(pstdev([a for a, _ in pairs]), pstdev([b for _, b in pairs]))
        both = pstdev([a + b for a, b in pairs])
        if least <= SAME or both > CANCELLED * least:
            continue
        message = (
            f"{one} and {other} cancel each other: weighted they vary by {least:.3g} and more, their sum by {both:.3g}"
        )
        hint = f"leave one of them out, {_key(other)}.weight=0, or give it less: {_key(other)}.weight=" + (
            f"{trials.weights[other] / 4:g}"
        )
        lints.append(Lint("warning", "cancelling", other, message, hint))
    return lints


def beaten_solver(trials: Trials) -> list[Lint]:
    """A solver that scores no better than random play."""
    if not trials.totals(SOLVER) or not trials.totals(RANDOM):
        return []
    change = trials.change(RANDOM, SOLVER)
    if change.low is not None and change.low > 0:
        return []
    solver, lucky = fmean(trials.totals(SOLVER)), fmean(trials.totals(RANDOM))
    against = _terms_by_gain(trials, SOLVER, RANDOM)
    worst, loss = against[0]
    blame = (
        f"; {worst} prefers random play by {loss:.3g}"
        if loss > SAME
        else f"; no term prefers the solver, {worst} neither"
    )
    if not any(gain < -SAME for _, gain in against) or loss > SAME:
        message = f"the solver scores {solver:.3g} and random play {lucky:.3g}{blame}"
    else:
        message = f"the solver scores {solver:.3g} and random play {lucky:.3g}, which may be chance: {_range(change)}"
    hint = (
        f"reward what the solver does right, and give what speaks against it less: {_key(worst)}.weight="
        f"{trials.weights[worst] / 4:g}; --episodes {4 * len(trials.totals(RANDOM))} tells chance from a fault"
    )
    return [Lint("warning", "solver", worst, message, hint)]


def doing_nothing(trials: Trials) -> list[Lint]:
    """Episodes without a single call that score better than those of whoever tries."""
    best = SOLVER if trials.totals(SOLVER) else RANDOM
    for trying in dict.fromkeys((best, RANDOM)):
        change = trials.change(trying, NOTHING)
        if not trials.totals(trying) or change.value is None or change.low is None or change.low <= 0:
            continue
        worst, loss = _terms_by_gain(trials, trying, NOTHING)[0]
        idle, tried = fmean(trials.totals(NOTHING)), fmean(trials.totals(trying))
        who = "the solver" if trying == SOLVER else "random play"
        message = f"doing nothing scores {idle:.3g} and {who} {tried:.3g}; {worst} costs those who try {loss:.3g}"
        if trying == best:
            less = f"{_key(worst)}.weight={trials.weights[worst] / 4:g}"
            hint = f"make trying worth it: {less}, or a term for part of the way"
            return [Lint("warning", "nothing", worst, message, hint)]
        message += ": a model that plays no better than random learns first to stop trying"
        hint = f"begin with a model that plays a little, or make mistakes cheaper: {_key(worst)}.weight=" + (
            f"{trials.weights[worst] / 4:g}"
        )
        return [Lint("note", "nothing", worst, message, hint)]
    return []


def flat_groups(trials: Trials) -> list[Lint]:
    """Groups of one seed in which all rollouts score the same."""
    by_seed: dict[int | None, list[Trial]] = {}
    for trial in trials.players.get(GROUPS, ()):
        by_seed.setdefault(trial.seed, []).append(trial)
    groups = [group for group in by_seed.values() if len(group) > 1]
    totals = [[trials.total(trial) or 0.0 for trial in group] for group in groups]
    flat = [group for group in totals if max(group) - min(group) <= SAME]
    varied = [term for term in trials.weights if trials.varies(term)]
    # A reward that never varies at all is the business of the lint of constant terms.
    if not groups or not varied or len(flat) < MOST_FLAT * len(groups):
        return []
    size = len(groups[0])
    fixed = [term for term in varied if _follows_from_seed(term, groups)]
    message = f"in {len(flat)} of {len(groups)} groups of {size} random rollouts of one seed all score the same"
    if fixed:
        message += f": {', '.join(fixed)} follows from the seed, not from what is done"
        hint = f"mend the function that {_key(fixed[0])}._target_ names: GRPO subtracts the mean of a seed's rollouts"
        return [Lint("warning", "groups", fixed[0], message, hint)]
    message += f" ({', '.join(varied)}): a model that plays no better than random gets no signal"
    hint = (
        "add a term for part of the way, begin with an easier game or a warmed-up model, or compare more rollouts: "
        "grpo.num_generations=16"
    )
    return [Lint("warning", "groups", varied[0], message, hint)]


def _follows_from_seed(term: str, groups: Sequence[Sequence[Trial]]) -> bool:
    means = set()
    for group in groups:
        values = {trial.rewards[term] for trial in group}
        if len(values) > 1:
            return False
        means |= values
    return len(means) > 1


def _terms_by_gain(trials: Trials, trying: str, other: str) -> list[tuple[str, float]]:
    """Terms with what `other` gains by them over `trying`, weighted; the largest gain first."""
    gains = []
    for term in trials.weights:
        ours, theirs = trials.values(term, trying), trials.values(term, other)
        gains.append((term, (fmean(theirs) if theirs else 0.0) - (fmean(ours) if ours else 0.0)))
    return sorted(gains, key=lambda pair: -pair[1])


def _who(trials: Trials, missing: Sequence[Trial]) -> str:
    """Whose episodes, if they have something in common."""
    if all(trial.calls == 0 for trial in missing):
        return ", all of them without a tool call"
    lost = {id(trial) for trial in missing}
    players = [name for name, played in trials.players.items() if any(id(trial) in lost for trial in played)]
    names = ["random" if name == GROUPS else name for name in players if name != STUBBORN]
    return f" (of {', '.join(dict.fromkeys(names))})" if names and len(players) < len(trials.players) else ""


def _range(change: Difference) -> str:
    if change.low is None or change.high is None:
        return "too few episodes to tell"
    return f"the difference is {change.low:+.3g} to {change.high:+.3g}"


def _key(term: str) -> str:
    environment, _, name = term.partition(".")
    return f"envs.{environment}.rewards.{name}"
