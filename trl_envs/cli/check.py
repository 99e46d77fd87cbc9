"""`trl-env check`: whether a run can work, found out before it costs anything."""

from __future__ import annotations

import json

import typer

from trl_envs.cli.display import TrainDisplay
from trl_envs.cli.findings import budget_lines, figure_lines, warning_lines
from trl_envs.cli.options import AsJson, Overrides, ProbeSpaces, RecipeDirs, compose_typed


def check(
    context: typer.Context,
    overrides: Overrides = None,
    recipe_dir: RecipeDirs = None,
    probe: ProbeSpaces = False,
    as_json: AsJson = False,
) -> None:
    """Say whether a run can work here, and what to change if it can't: everything at once, before weights are loaded.

    First the rules over config and machine; then, against the environment's server (started for the occasion, or the
    one that envs.NAME.url names), the tools, the model's template, as many sessions as the run needs, and a scripted
    episode with every reward term. `train` does all of this by itself.

    \b
    trl-env check recipe=catch preset=smoke
    trl-env check recipe=catch model=Qwen/Qwen3-0.6B grpo.num_generations=16
    trl-env check recipe=catch preset=smoke envs.catch.url=http://127.0.0.1:8001
    trl-env check recipe=catch envs.catch.url=https://me-catch.hf.space --probe

    Exit codes: 0 it can, 2 it can't, 3 a server didn't start or the probe hung, 4 one of them ended too early.
    """
    from rich.console import Console

    from trl_envs import launch
    from trl_envs.preflight.findings import raise_errors

    composed = compose_typed(overrides, context, recipe_dir)
    report = launch.check(composed, TrainDisplay(Console(stderr=True)), all_sessions=probe)
    if as_json:
        typer.echo(json.dumps(report.as_dict(), indent=2))
        raise typer.Exit(2 if report.errors else 0)
    for line in [*figure_lines(report), *budget_lines(report)]:
        typer.echo(line)
    for line in warning_lines(report):
        typer.echo(line, err=True)
    raise_errors(report)
    typer.echo(f"ok       {composed.config.recipe}, preset {composed.config.preset}: nothing speaks against this run")
