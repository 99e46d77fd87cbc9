"""`trl-env show`: the config of a run, without running it."""

from __future__ import annotations

import json

import typer

from trl_envs.cli.options import AsJson, Overrides, RecipeDirs, compose_typed


def show(
    context: typer.Context, overrides: Overrides = None, recipe_dir: RecipeDirs = None, as_json: AsJson = False
) -> None:
    """Print the config that a run would have, every key with its value.

    \b
    trl-env show recipe=catch
    trl-env show recipe=catch preset=smoke grpo.learning_rate=1e-6 --json
    """
    from trl_envs.config.store import to_plain, to_yaml

    composed = compose_typed(overrides, context, recipe_dir)
    typer.echo(json.dumps(to_plain(composed.config), indent=2) if as_json else to_yaml(composed.config).rstrip())
