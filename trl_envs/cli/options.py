"""What several commands take."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from trl_envs.config.compose import Composed

RecipeDirs = Annotated[
    list[Path] | None,
    typer.Option("--recipe-dir", metavar="FOLDER", help="A folder of recipes besides ./recipes; may be repeated."),
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="recipe=NAME [KEY=VALUE]...", help="The recipe, and any key of its config.", show_default=False
    ),
]
ProbeSpaces = Annotated[
    bool,
    typer.Option("--probe", help="Open all sessions that the run needs, for a moment, on Spaces of others too."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")]


def typed(overrides: Sequence[str] | None, context: typer.Context) -> list[str]:
    """What was typed after a command, overrides that look like options included."""
    return [*(overrides or ()), *context.args]


def compose_typed(
    overrides: Sequence[str] | None,
    context: typer.Context,
    recipe_dirs: Sequence[Path] | None,
    config: Path | None = None,
) -> Composed:
    """Composes what was typed after a command, over a config file if one is given, and makes folders importable."""
    from trl_envs.config.compose import compose
    from trl_envs.config.frozen import compose_frozen
    from trl_envs.paths import make_importable

    arguments = typed(overrides, context)
    if config is not None:
        composed = compose_frozen(config, arguments, recipe_dirs or ())
    else:
        composed = compose(arguments, recipe_dirs or ())
    make_importable(list(composed.import_folders))
    return composed
