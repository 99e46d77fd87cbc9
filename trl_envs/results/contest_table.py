"""Several players for people: a table an environment, in the game's own terms."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from rich.table import Table
from rich.text import Text

from trl_envs.results.baseline_table import estimate_cell
from trl_envs.results.contest import Contest
from trl_envs.results.evaluation import EnvironmentResult
from trl_envs.results.statistics import Estimate

Results = Mapping[str, EnvironmentResult]


def contest_tables(found: Contest) -> list[Table]:
    """One table an environment: a row a figure, a column a player."""
    first = next(iter(found.evaluations.values()))
    return [
        _table(name, {label: one.environments[name] for label, one in found.evaluations.items()})
        for name in first.environments
    ]


def how_played(found: Contest) -> str:
    """One line on what the figures were found out by."""
    first = next(iter(found.evaluations.values()))
    models = [one for one in found.evaluations.values() if one.backend != one.model]
    how = (
        "" if not models else "greedy play" if models[0].temperature == 0 else f"temperature {models[0].temperature:g}"
    )
    return ", ".join(filter(None, [f"seed {first.seed}", how]))


def _table(name: str, results: Results) -> Table:
    table = Table(caption_justify="left")
    table.add_column(Text(name), overflow="fold")
    for label in results:
        table.add_column(Text(label), justify="right", overflow="fold")
    for heading, value, counted in _rows(results):
        figures = [value(one) for one in results.values()]
        if any(figure is not None and figure.mean is not None for figure in figures):
            table.add_row(Text(heading), *(estimate_cell(figure, counted=counted, none="-") for figure in figures))
    table.add_row(Text("episodes"), *(_played(one) for one in results.values()))
    table.caption = _caption(results)
    return table


def _rows(results: Results) -> Iterator[tuple[str, Callable[[EnvironmentResult], Estimate | None], bool]]:
    """Headings, what stands below them, and whether that is a count."""
    every = list(results.values())
    yield "won", lambda one: one.wins, False
    for figure in dict.fromkeys(name for one in every for name in one.figures):
        yield figure, lambda one, figure=figure: one.figures.get(figure), True  # type: ignore[misc]
    terms = list(dict.fromkeys(name for one in every for name in one.terms))
    for term in terms:
        yield term, lambda one, term=term: one.terms.get(term), False  # type: ignore[misc]
    if len(terms) > 1:
        yield "weighted sum", lambda one: one.reward, False
    yield "turns", lambda one: one.turns, True
    yield "tokens", lambda one: one.tokens, True


def _played(one: EnvironmentResult) -> Text:
    lost = Text(f", {one.lost} lost", "red") if one.lost else Text("")
    return Text(f"{one.episodes}, {one.games} games" if one.by_game else str(one.episodes)).append(lost)


def _caption(results: Results) -> str:
    repeated = any(one.by_game and one.games < one.episodes - one.lost for one in results.values())
    said = ["Mean ± standard deviation, and the mean's 95 % interval."]
    if repeated:
        said.append("A game that was played the same way twice counts once.")
    return " ".join(said)
