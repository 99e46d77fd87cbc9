"""`trl-env baseline`: what random play, a solver and a model score, and lints of the reward."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from trl_envs.cli.options import AsJson, Overrides, RecipeDirs, compose_typed


def baseline(
    context: typer.Context,
    overrides: Overrides = None,
    recipe_dir: RecipeDirs = None,
    episodes: Annotated[int, typer.Option(min=1, help="Episodes of each player and environment.")] = 100,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Have a model play too, named as in model=NAME.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with code 1 if the reward has a warning.")] = False,
    as_json: AsJson = False,
) -> None:
    """Test the reward before training: what do random play, the game's solver and doing nothing score?

    Prints wins, each reward term with its spread and 95 % interval, turns and invalid actions, and then lints the
    reward: a solver that doesn't beat random play, groups without spread, terms that are constant or cancel each other,
    doing nothing scoring best, episodes left unscored. Each lint names the term and what to change.

    \b
    trl-env baseline recipe=wordle
    trl-env baseline recipe=catch --episodes 50 --model tiny
    trl-env baseline recipe=mine --strict --json

    Exit codes: 0 whatever the lints say, with --strict 1 if there is a warning (a note is none), else as for check.
    """
    from rich.console import Console

    from trl_envs import rehearse
    from trl_envs.cli.baseline_display import BaselineProgress
    from trl_envs.cli.display import run_console
    from trl_envs.results.baseline_table import baseline_tables, lint_lines

    arguments = [*(overrides or ()), *([f"model={model}"] if model is not None else [])]
    composed = compose_typed(arguments, context, recipe_dir)
    display = BaselineProgress(run_console(), composed, episodes, with_model=model is not None)
    found = rehearse.baseline(composed, display, episodes, with_model=model is not None)
    warned = any(lint.level == "warning" for lint in found.lints)
    if as_json:
        typer.echo(json.dumps(asdict(found), indent=2))
    else:
        console = Console()
        if not console.is_terminal:
            # Into a file or a pipe goes the whole table: there is no edge at which to cut it.
            console.width = 160
        for table in baseline_tables(found):
            console.print(table)
        for line in lint_lines(found):
            console.print(line, markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(1 if strict and warned else 0)
