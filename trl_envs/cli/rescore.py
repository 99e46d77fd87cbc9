"""`trl-env rescore`: what a run's episodes would have scored by other reward terms."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from trl_envs.cli.options import AsJson, typed


def rescore(
    context: typer.Context,
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.", show_default=False)],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="Changes of its reward terms.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Score a run's recorded episodes by other reward terms, numbers or weights, without playing again.

    Prints each term's mean as recorded and as scored anew, and how many groups gain or lose signal: GRPO learns from a
    group only if its episodes score differently. The run stays as it is.

    \b
    trl-env rescore runs/first envs.wordle.rewards.win.speed_bonus=1
    trl-env rescore runs/first envs.wordle.rewards.invalid.weight=0.25 --json
    trl-env rescore runs/first envs.wordle.rewards.short._target_=my_env.short

    Terms that look at live environments or at completions can't be scored anew; they keep their recorded values.

    Exit codes: 0 rescored, 1 a term failed, 2 refused, 130 Ctrl-C.
    """
    from rich.console import Console

    from trl_envs import rescoring
    from trl_envs.results.rescored import rescored_table, signal_lines

    found = rescoring.rescore(run, typed(overrides, context))
    if as_json:
        typer.echo(json.dumps(asdict(found), indent=2))
        return
    console = Console()
    if not console.is_terminal:
        # Into a file or a pipe goes the whole table: there is no edge at which to cut it.
        console.width = 160
    console.print(rescored_table(found))
    for line in signal_lines(found):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
