"""`trl-env sft`: a warm-up on collected games."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from trl_envs.cli.options import AsJson, Overrides, RecipeDirs, compose_typed
from trl_envs.cli.train import DryRun


def sft(
    context: typer.Context,
    data: Annotated[
        list[Path], typer.Option(metavar="FOLDER", help="Games of trl-env collect; may be repeated to mix several.")
    ],
    overrides: Overrides = None,
    recipe_dir: RecipeDirs = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Warm a model up on collected games with TRL's SFTTrainer: what GRPO then has to start from.

    The model's own turns are learnt, and nothing else; each game is the tokens that GRPO would render. The fields of
    SFTConfig are set under sft, as GRPOConfig's are under grpo. The run directory is a model to train on from.

    \b
    trl-env sft recipe=wordle --data data/wordle sft.num_train_epochs=2 run_name=warm
    trl-env train recipe=wordle model=runs/warm
    trl-env sft recipe=catch preset=demo model=tiny-random --data data/catch       (a tiny model, from random weights)

    Exit codes: as for train.
    """
    from trl_envs import warmup
    from trl_envs.cli.display import run_console
    from trl_envs.cli.sft_display import WarmupDisplay, show_warmup

    composed = compose_typed(overrides, context, recipe_dir)
    if dry_run:
        plan = warmup.plan_sft(composed, data)
        typer.echo(json.dumps(plan.as_dict(), indent=2) if as_json else plan.trainer.command())
        return
    console = run_console()
    record = warmup.sft(composed, WarmupDisplay(console), data)
    show_warmup(console, record)
    if as_json:
        typer.echo(json.dumps(asdict(record), indent=2))
