"""`trl-env serve`: a recipe's embedded environment servers, in the foreground."""

from __future__ import annotations

import tempfile
from pathlib import Path
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
    from trl_envs.launch import machine_facts
    from trl_envs.plan.batch import build_batch
    from trl_envs.plan.build import build_servers
    from trl_envs.runtime.supervisor import Supervisor

    composed = compose_typed(overrides, context, recipe_dir)
    wanted = sessions or build_batch(composed.config).sessions
    specs = build_servers(composed.config, machine_facts(), wanted, composed.import_folders)
    with tempfile.TemporaryDirectory(prefix="trl-env-serve-") as logs, Supervisor(Path(logs)) as supervisor:
        children = {name: supervisor.start(spec) for name, spec in specs.items()}
        for name, child in children.items():
            supervisor.wait_ready(child)
            url = f"http://{child.spec.host}:{child.spec.port}"
            limit = child.spec.variables["MAX_CONCURRENT_ENVS"]
            typer.echo(f"{name}: {url} takes {limit} sessions; use it with envs.{name}.url={url}", err=True)
        supervisor.watch(next(iter(children.values())))
