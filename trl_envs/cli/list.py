"""`trl-env list`: which recipes there are."""

from __future__ import annotations

import json
from typing import Any

import typer

from trl_envs.cli.options import AsJson, RecipeDirs


def list_recipes(recipe_dir: RecipeDirs = None, as_json: AsJson = False) -> None:
    """List the recipes: the shipped ones, and those in ./recipes and --recipe-dir.

    \b
    trl-env list
    trl-env list --recipe-dir ~/my-recipes --json
    """
    from trl_envs.config.recipes import find_recipes

    recipes = find_recipes(recipe_dir or ())
    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "description": recipe.description or (f"like {', '.join(recipe.parents)}" if recipe.parents else ""),
            "problem": recipe.problem.message if recipe.problem else "",
            "shipped": recipe.shipped,
            "path": str(recipe.path),
        }
        for name, recipe in sorted(recipes.items())
    ]
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        place = "" if row["shipped"] else f"  ({row['path']})"
        said = f"can't be used: {row['problem']}" if row["problem"] else f"{row['description']}{place}"
        typer.echo(f"{row['name']:<{width}}  {said}")
