"""`trl-env collect`: games as conversations to learn from."""

from __future__ import annotations

import json
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from trl_envs.cli.options import AsJson, Overrides, RecipeDirs, compose_typed


class Policy(StrEnum):
    """Who plays."""

    solver = "solver"
    random = "random"
    model = "model"


Player = Annotated[Policy, typer.Option(help="Who plays: the game's solver, random play, or the config's model.")]
Episodes = Annotated[int, typer.Option(min=1, help="Episodes to play of each environment.")]
MinReward = Annotated[
    float | None, typer.Option(metavar="X", help="Keep games whose weighted sum of terms is this or more.")
]
Seed = Annotated[int | None, typer.Option(min=0, help="Of the episodes; by default those that training plays.")]
Reasoning = Annotated[
    bool | None,
    typer.Option(
        "--reasoning/--no-reasoning",
        help="A short reasoning before each call, where the player gives one; by default as the recipe thinks.",
    ),
]
Noise = Annotated[
    float, typer.Option(min=0.0, max=1.0, metavar="SHARE", help="Share of the solver's moves made at random.")
]


def collect(
    context: typer.Context,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Takes the games; made if it isn't there.")],
    overrides: Overrides = None,
    recipe_dir: RecipeDirs = None,
    policy: Player = Policy.solver,
    episodes: Episodes = 200,
    min_reward: MinReward = None,
    seed: Seed = None,
    reasoning: Reasoning = None,
    noise: Noise = 0.0,
    as_json: AsJson = False,
) -> None:
    """Play games and keep them as conversations that TRL's SFTTrainer takes: what `trl-env sft` warms a model up with.

    The environment classes, prompts, tools and reward terms are those of training. FOLDER/games.jsonl holds a game a
    line: messages, tools, environment, seed, each term and the reward. What was played before an interruption is kept:
    the same command goes on from there, and does nothing once it is finished.

    \b
    trl-env collect recipe=wordle --policy solver --episodes 1000 --out data/wordle
    trl-env collect recipe=catch --policy random --episodes 500 --min-reward 1 --out data/catch
    (rejection sampling:)
    trl-env collect recipe=wordle model=./runs/first --policy model --min-reward 1 --out data/own

    Exit codes: 0 collected, 1 a reward term failed or too many episodes were lost, 2 and 3 as for check,
    130 Ctrl-C, 143 SIGTERM.
    """
    from trl_envs import warmup
    from trl_envs.cli.collect_display import CollectProgress, outcome_lines
    from trl_envs.cli.display import run_console
    from trl_envs.errors import Interrupted
    from trl_envs.results.collection import Collection

    composed = compose_typed(overrides, context, recipe_dir)
    wish = warmup.Wish(policy.value, episodes, min_reward, seed, reasoning, noise)
    total = episodes * len(composed.config.envs)
    try:
        with CollectProgress(run_console(), policy.value, total) as display:
            found = warmup.collect(composed, display, wish, out)
    except Interrupted as interrupted:
        played = sum(len(numbers) for numbers in Collection(out).numbers().values())
        typer.echo(f"\nstopped after {played} of {total} games; the same command goes on from there", err=True)
        raise typer.Exit(interrupted.exit_code) from interrupted
    if as_json:
        typer.echo(json.dumps({**asdict(found), "games": str(Collection(out).games_file)}, indent=2))
        return
    for line in outcome_lines(found, Collection(out), thoughts=reasoning is True):
        typer.echo(line)
