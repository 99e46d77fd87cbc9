"""`trl-env space`: Spaces of the Hub that serve environments."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from trl_envs.cli.options import AsJson, Overrides, RecipeDirs, compose_typed

space_app = typer.Typer(
    name="space",
    help="Spaces of the Hub that serve environments (server=space).",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@space_app.callback()
def _options() -> None:
    """Keeps `duplicate` a command of its own name, though it is the only one."""


@space_app.command("duplicate", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def duplicate(
    context: typer.Context,
    overrides: Overrides = None,
    to: Annotated[str, typer.Option("--to", metavar="OWNER/NAME", help="The copy.")] = "",
    env: Annotated[
        str | None, typer.Option("--env", metavar="NAME", help="Whose Space, if the recipe has several.")
    ] = None,
    private: Annotated[
        bool | None, typer.Option("--private/--public", help="Who may use the copy; by default as the original.")
    ] = None,
    hardware: Annotated[
        str | None, typer.Option(metavar="FLAVOR", help="Such as cpu-upgrade; by default the Hub's free one.")
    ] = None,
    sessions: Annotated[
        int | None, typer.Option(min=1, help="Sessions at once; by default what the recipe's run needs.")
    ] = None,
    recipe_dir: RecipeDirs = None,
    as_json: AsJson = False,
) -> None:
    """Copy a recipe's Space into an account of yours, with room for all sessions that the recipe's run needs.

    \b
    trl-env space duplicate recipe=wordle --to me/wordle
    trl-env space duplicate recipe=wordle --to me/wordle --private --hardware cpu-upgrade
    trl-env space duplicate recipe=multi_env --env catch --to my-team/catch
    trl-env train recipe=wordle server=space envs.wordle.space=me/wordle     (afterwards)

    Needs a token that may write: HF_TOKEN (or what server.token_env names), or `hf auth login`. The Hub builds the copy
    in a few minutes, which train and check wait for.
    """
    from trl_envs.errors import ConfigError
    from trl_envs.plan.space_copy import plan_copy

    if not to:
        raise ConfigError("where should the copy go?", "add --to OWNER/NAME, such as --to me/wordle")
    config = compose_typed(overrides, context, recipe_dir).config
    copy = plan_copy(config, to, env, sessions)
    from trl_envs.servers.duplicate import duplicate_space

    url = duplicate_space(copy, config.server, private=private, hardware=hardware)
    if as_json:
        made = {"from": copy.source, "to": copy.target, "url": url, "variables": dict(copy.variables)}
        typer.echo(json.dumps({**made, "sessions": copy.sessions, "overrides": copy.overrides}, indent=2))
        return
    limit = copy.variables["MAX_CONCURRENT_ENVS"]
    typer.echo(f"copied {copy.source} to {copy.target}, which takes {limit} sessions: {url}")
    typer.echo(f"use it with {copy.overrides}")
