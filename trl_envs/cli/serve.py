"""`trl-env serve`: a recipe's embedded environment servers, in the foreground."""

from __future__ import annotations

from typing import Annotated

import typer

from trl_envs.cli.options import Overrides, RecipeDirs, compose_typed


def serve(
    context: typer.Context,
    overrides: Overrides = None,
    recipe_dir: RecipeDirs = None,
    sessions: Annotated[
        int | None, typer.Option(min=1, help="Sessions at once; by default what the recipe's run needs.")
    ] = None,
) -> None:
    """Start a recipe's embedded environment servers and keep them until Ctrl-C.

    \b
    trl-env serve recipe=catch server.port=8001
    trl-env train recipe=catch envs.catch.url=http://127.0.0.1:8001     (in another terminal)
    """
    from trl_envs import rehearse

    composed = compose_typed(overrides, context, recipe_dir)

    def tell(name: str, url: str, limit: str) -> None:
        # A closed session is free a moment later than the next one opens.
        spare = "a few more than are needed at once"
        typer.echo(f"{name}: {url} takes {limit} sessions, {spare}; use it with envs.{name}.url={url}", err=True)

    rehearse.serve(composed, sessions, tell)
