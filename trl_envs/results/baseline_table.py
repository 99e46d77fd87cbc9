"""A baseline for people: a table an environment, and the lints behind it."""

from __future__ import annotations

from collections.abc import Mapping

from rich.table import Table
from rich.text import Text

from trl_envs.results.baseline import Baseline, EnvironmentBaseline, PlayerResult
from trl_envs.results.statistics import Estimate

_COUNTS = ("turns", "invalid actions")


def baseline_tables(found: Baseline) -> list[Table]:
    """One table an environment: a row a figure, a column a player."""
    return [_table(name, one) for name, one in found.environments.items()]


def lint_lines(found: Baseline) -> list[str]:
    """Each lint with what to change; one line that says so if there is none."""
    if not found.lints:
        return ["ok: no lint has anything against the reward"]
    return [f"{lint.level}: {lint.message}\n{'':<9}change: {lint.hint}" for lint in found.lints]


def _table(name: str, found: EnvironmentBaseline) -> Table:
    table = Table(caption_justify="left")
    table.add_column(Text(name), overflow="fold")
    for player in found.players:
        table.add_column(player, justify="right", no_wrap=True)
    first = next(iter(found.players.values()))
    rows: list[tuple[str, Mapping[str, Estimate | None]]] = [
        ("won", {who: one.wins for who, one in found.players.items()}),
        *((term, {who: one.terms[term] for who, one in found.players.items()}) for term in first.terms),
        ("weighted sum", {who: one.reward for who, one in found.players.items()}),
        ("turns", {who: one.turns for who, one in found.players.items()}),
        ("invalid actions", {who: one.invalid for who, one in found.players.items()}),
    ]
    for label, figures in rows:
        if any(figure is not None for figure in figures.values()):
            counted = label in _COUNTS
            table.add_row(Text(label), *(estimate_cell(figure, counted=counted) for figure in figures.values()))
    table.caption = _caption(found.players)
    return table


def estimate_cell(figure: Estimate | None, *, counted: bool, none: str = "unscored") -> Text:
    """A figure in a table: mean, spread and interval.

    Args:
        figure: None leaves the cell empty.
        counted: Whether it counts something: what happens to be 0 and 1 alone is no share then.
        none: What to say where nothing has a value.
    """
    if figure is None or figure.mean is None:
        return Text(none if figure is not None else "", "yellow")
    # Counts that happen to be 0 and 1 alone aren't shares, and have no interval of one.
    open_ended = figure.low is None or figure.high is None or (counted and figure.share)
    # A share says by itself how it varies.
    spread = "" if figure.sd is None or figure.share else f" ± {figure.sd:.2f}"
    between = "" if open_ended else f"\n{figure.low:.2f} to {figure.high:.2f}"
    cell = Text(f"{figure.mean:.2f}{spread}", "bold")
    return cell.append(between, "not bold dim")


def _caption(players: Mapping[str, PlayerResult]) -> str:
    each = ", ".join(f"{one.episodes} by {who}" for who, one in players.items())
    lost = sum(one.lost for one in players.values())
    lost_text = f"; {lost} lost ones left out" if lost else ""
    return f"Episodes: {each}{lost_text}. Mean ± standard deviation, and the mean's 95 % interval."
