"""`trl-env play`: one episode at the terminal, by hand or by a script."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from trl_envs.cli.options import Overrides, RecipeDirs, compose_typed


class Policy(StrEnum):
    """Scripted players."""

    random = "random"
    solver = "solver"


def play(
    context: typer.Context,
    overrides: Overrides = None,
    recipe_dir: RecipeDirs = None,
    env: Annotated[str | None, typer.Option(metavar="NAME", help="Which environment, in a recipe of several.")] = None,
    policy: Annotated[Policy | None, typer.Option(help="Watch a scripted player instead.")] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of the episode, as in episodes.jsonl; drawn by default.")
    ] = None,
) -> None:
    """Play one episode yourself, with the tools and reward terms of training, or watch a scripted player.

    \b
    trl-env play recipe=wordle
    trl-env play recipe=wordle --policy solver --seed 3
    trl-env play recipe=multi_env --env catch
    trl-env play recipe=catch --policy random | cat       (plain text, without colours)

    Type a tool and its arguments, as in `move left` or `place row=1 column=2 number=9`; where there is one tool its
    name can be left out. `help` lists them, `quit` ends the game.

    Exit codes: 0 the episode is over, 2 and 3 as for check, 130 Ctrl-C or the end of the input.
    """
    from trl_envs import rehearse
    from trl_envs.cli.display import TrainDisplay, run_console
    from trl_envs.errors import Interrupted

    composed = compose_typed(overrides, context, recipe_dir)
    try:
        code = rehearse.play(composed, TrainDisplay(run_console()), env, policy.value if policy else None, seed)
    except Interrupted as interrupted:
        typer.echo("\nstopped", err=True)
        raise typer.Exit(interrupted.exit_code) from interrupted
    raise typer.Exit(code)
