"""`trl-env train`: run a recipe, go on with a run, or run a sweep."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trl_envs.cli.options import AsJson, Overrides, ProbeSpaces, RecipeDirs, compose_typed, typed

if TYPE_CHECKING:
    from trl_envs.cli.display import TrainDisplay
    from trl_envs.config.compose import Composed
    from trl_envs.results.record import RunRecord


DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the commands that would run, and start nothing.")]
Resume = Annotated[
    Path | None,
    typer.Option("--resume", metavar="RUN_DIR", help="Go on with a run from its last checkpoint, in its directory."),
]
Multirun = Annotated[
    bool,
    typer.Option(
        "-m",
        "--multirun",
        help="Run every combination of KEY=A,B values, one after the other, or where hydra/launcher=NAME says.",
    ),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="A whole config, such as the config.yaml of another run."),
]


def train(
    context: typer.Context,
    overrides: Overrides = None,
    recipe_dir: RecipeDirs = None,
    dry_run: DryRun = False,
    resume: Resume = None,
    multirun: Multirun = False,
    config: ConfigFile = None,
    probe: ProbeSpaces = False,
    as_json: AsJson = False,
) -> None:
    """Train a recipe: start its environment server and the trainer, watch them, and show what came of it.

    \b
    trl-env train recipe=catch preset=smoke
    trl-env train recipe=catch model=Qwen/Qwen3-0.6B grpo.max_steps=50 run_name=first
    trl-env train recipe=catch envs.catch.url=http://127.0.0.1:8001
    trl-env train recipe=catch preset=smoke --dry-run
    trl-env train --resume runs/first grpo.max_steps=100
    trl-env train --config runs/first/config.yaml seed=1
    trl-env train -m recipe=echo,catch preset=smoke grpo.learning_rate=1e-6,1e-5
    trl-env train -m recipe=catch seed=1,2,3 hydra/launcher=submitit_slurm hydra.launcher.partition=gpu

    Exit codes: 0 trained, 1 training failed, 2 refused before it started, 3 a server didn't start,
    4 a process ended before the run did, 130 Ctrl-C, 143 SIGTERM.
    """
    from trl_envs import launch

    _refuse_together(resume=resume is not None, multirun=multirun, dry_run=dry_run)
    _refuse_together(resume=resume is not None, multirun=multirun, config=config is not None)
    arguments = typed(overrides, context)
    if multirun:
        from trl_envs.cli.sweep import run_sweep

        run_sweep(arguments, recipe_dir or (), all_sessions=probe, as_json=as_json)
        return
    if resume is not None:
        _show(lambda display: launch.resume(resume, arguments, display, all_sessions=probe), as_json)
        return
    composed = compose_typed(overrides, context, recipe_dir, config)
    if dry_run:
        _print_plan(composed, as_json)
    else:
        _show(lambda display: launch.train(composed, display, all_sessions=probe), as_json)


def _show(run: Callable[[TrainDisplay], RunRecord], as_json: bool) -> None:
    """Runs something and shows it as it goes and at its end."""
    from trl_envs.cli.display import TrainDisplay, run_console, show_outcome

    console = run_console()
    record = run(TrainDisplay(console))
    show_outcome(console, record)
    if as_json:
        typer.echo(json.dumps(asdict(record), indent=2))


def _refuse_together(**given: bool) -> None:
    from trl_envs.errors import ConfigError

    asked = [f"--{name.replace('_', '-')}" for name, is_given in given.items() if is_given]
    if len(asked) > 1:
        raise ConfigError(f"{' and '.join(asked)} can't be done together", "use one of them at a time")


def _print_plan(composed: Composed, as_json: bool) -> None:
    from trl_envs import launch

    plan, assumed = launch.plan_run(composed)
    if assumed:
        typer.echo(f"note: {assumed}", err=True)
    if as_json:
        typer.echo(json.dumps(plan.as_dict(), indent=2))
        return
    lines = [f"# launch: {plan.mode} on {plan.device} ({plan.reason})"]
    for name, env in plan.environments.items():
        if env.space:
            lines += ["", f"# {name}: plays on the Space {env.space}; the Hub gives its address when the run starts"]
    for spec in plan.processes():
        lines += ["", f"# {spec.name}", spec.command()]
    fields = " ".join(f"{name}={value}" for name, value in plan.grpo.items())
    lines += ["", f"# The launch adds to GRPOConfig: {fields}"]
    lines += [
        "",
        "# A server can be pasted as it stands; the trainer reads config.yaml and plan.json of a run directory,",
    ]
    lines += ["# which train writes before it starts anything."]
    typer.echo("\n".join(lines))
