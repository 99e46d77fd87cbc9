"""Before and after training: what changed, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table
from rich.text import Text

from trl_envs.results.evaluation import EnvironmentResult, Evaluation, read_evaluation
from trl_envs.results.rundir import RunDirectory
from trl_envs.results.statistics import Difference, Estimate, difference


@dataclass(frozen=True)
class ComparedTerm:
    """One figure before and after, JSON-able.

    The two evaluations play the same seeds, yet draw each token anew: taking them as independent makes the interval of
    the difference rather too wide than too narrow.

    Args:
        name: `<environment>.<term>`, or `<environment> won`.
        before: Its mean before.
        after: Its mean after.
        difference: After minus before.
    """

    name: str
    before: Estimate
    after: Estimate
    difference: Difference


def compare(before: Evaluation, after: Evaluation) -> list[ComparedTerm]:
    """Every reward term, and the share of games won where the game says so."""
    compared = []
    for environment, first in before.environments.items():
        second = after.environments[environment]
        for name, first_mean, second_mean in _figures(environment, first, second):
            compared.append(ComparedTerm(name, first_mean, second_mean, difference(first_mean, second_mean)))
    return compared


def describe_evaluations(run: RunDirectory) -> dict[str, Any]:
    """`before`, `after` and `differences` of a run as plain containers, as far as they have been found."""
    found = {name: read_evaluation(run, name) for name in ("before", "after")}
    evaluations = {name: one for name, one in found.items() if isinstance(one, Evaluation)}
    described: dict[str, Any] = {name: asdict(one) for name, one in evaluations.items()}
    if len(evaluations) == len(found):
        compared = compare(evaluations["before"], evaluations["after"])
        described["differences"] = {one.name: asdict(one.difference) for one in compared}
    return described


def _figures(
    environment: str, first: EnvironmentResult, second: EnvironmentResult
) -> list[tuple[str, Estimate, Estimate]]:
    terms = [(f"{environment}.{term}", mean, second.terms[term]) for term, mean in first.terms.items()]
    if first.wins is None or second.wins is None:
        return terms
    return [*terms, (f"{environment} won", first.wins, second.wins)]


def comparison_table(before: Evaluation, after: Evaluation) -> Table:
    """Each figure before and after, the difference and its 95 % interval, and what was played to find out."""
    table = Table(caption_justify="left")
    table.add_column("", overflow="fold")
    for heading in ("before", "after", "difference", "95 % interval"):
        table.add_column(heading, justify="right", no_wrap=True)
    for one in compare(before, after):
        change = one.difference
        sure = change.low is not None and change.high is not None and (change.low > 0 or change.high < 0)
        style = "" if not sure else "green" if change.value is not None and change.value > 0 else "red"
        interval = "" if change.low is None or change.high is None else f"{change.low:+.3f} to {change.high:+.3f}"
        table.add_row(
            Text(one.name),
            Text(_mean(one.before)),
            Text(_mean(one.after)),
            Text("" if change.value is None else f"{change.value:+.3f}", style),
            Text(interval, style),
        )
    table.caption = comparison_caption((before, after))
    return table


def _mean(value: Estimate) -> str:
    return "unscored" if value.mean is None else f"{value.mean:.3f}"


def comparison_caption(evaluations: Sequence[Evaluation]) -> str:
    """What was played to find out, and how."""
    first = evaluations[0]
    results = [result for one in evaluations for result in one.environments.values()]
    each = sorted({str(result.episodes) for result in results})
    lost = sum(result.lost for result in results)
    how = "greedy" if first.temperature == 0 else f"sampled at temperature {first.temperature:g}"
    return (
        f"{' or '.join(each)} episodes each time, {how}"
        + (f"; {lost} lost ones left out" if lost else "")
        + ". Seeds apart from those trained on; a game of few starts repeats them"
        + "."
    )
