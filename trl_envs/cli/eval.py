"""`trl-env eval`: what models, scripted players and models behind an endpoint score on the same games."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trl_envs.cli.options import AsJson, Overrides, RecipeDirs, compose_typed
from trl_envs.cli.play import Policy

if TYPE_CHECKING:
    from trl_envs.config.compose import Composed
    from trl_envs.results.contest import Contest


class Backend(StrEnum):
    """What generates."""

    transformers = "transformers"
    vllm = "vllm"


Models = Annotated[
    list[str] | None,
    typer.Option("--model", metavar="NAME", help="A model, named as in model=NAME; may be repeated."),
]
Policies = Annotated[list[Policy] | None, typer.Option("--policy", help="A scripted player; may be repeated.")]
Episodes = Annotated[int, typer.Option(min=1, help="Episodes of each environment.")]
Seed = Annotated[int, typer.Option(min=0, help="From which the episode seeds follow; none is trained on.")]
Temperature = Annotated[float, typer.Option(min=0.0, help="Of sampling; 0 is greedy.")]
Backends = Annotated[Backend, typer.Option(help="What generates; vllm needs a GPU.")]
BaseUrl = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Play models behind an OpenAI-compatible endpoint, as in http://HOST:8000/v1."),
]
KeyVariable = Annotated[
    str, typer.Option("--api-key-env", metavar="NAME", help="Environment variable that holds the endpoint's key.")
]
Plain = Annotated[
    bool,
    typer.Option(
        "--plain", help="Send the endpoint only what OpenAI's own API knows (no chat_template_kwargs, no top_k ...)."
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Folder for figures and transcripts, instead of one in runs/evaluations/."),
]


def evaluate(
    context: typer.Context,
    overrides: Overrides = None,
    recipe_dir: RecipeDirs = None,
    model: Models = None,
    policy: Policies = None,
    episodes: Episodes = 30,
    seed: Seed = 0,
    temperature: Temperature = 0.0,
    backend: Backends = Backend.transformers,
    base_url: BaseUrl = None,
    key_variable: KeyVariable = "OPENAI_API_KEY",
    plain: Plain = False,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Compare models: each plays the same games, greedily unless told otherwise, with training's tools and limits.

    Prints wins, the game's own figures and the reward terms with 95 % intervals. In greedy play a game counts once,
    however many seeds lead to it. Without --model and --policy the recipe's own model plays.

    \b
    trl-env eval recipe=wordle --model qwen3-1.7b --model runs/sft --model runs/first
    trl-env eval recipe=catch --policy random --policy solver --model tiny --temperature 1 --episodes 200
    trl-env eval recipe=wordle --base-url http://127.0.0.1:8000/v1 --model Qwen/Qwen3-1.7B
    trl-env eval recipe=catch --model tiny --json --out results/tiny

    The folder holds evaluation.json, and for each player eval/PLAYER.jsonl: its episodes with every message.

    Exit codes: 0 played, 1 a reward term, the endpoint or too many episodes failed, else as for check.
    """
    from trl_envs import contest
    from trl_envs.cli.display import run_console
    from trl_envs.cli.evaluation import ContestProgress
    from trl_envs.config.schema import EvalConfig
    from trl_envs.errors import ConfigError

    if base_url is not None and backend is not Backend.transformers:
        raise ConfigError("--backend says what generates here, and with --base-url nothing does", "use one of them")
    names = list(model or ())
    composed = compose_typed(overrides, context, recipe_dir)
    scripted = contest.scripts([one.value for one in policy or ()])
    if base_url is not None:
        playing = contest.remote_models(names, contest.Endpoint(base_url, key_variable, plain))
    elif names or not scripted:
        playing = contest.local_models(_chosen(names, composed, overrides, context, recipe_dir), backend.value)
    else:
        playing = []
    asked, display = EvalConfig(episodes, seed, temperature), ContestProgress(run_console())
    _show(contest.evaluate(composed, [*scripted, *playing], asked, out, display), as_json)


def _chosen(
    names: Sequence[str],
    composed: Composed,
    overrides: Sequence[str] | None,
    context: typer.Context,
    recipe_dir: Sequence[Path] | None,
) -> list[tuple[str, str]]:
    """Each model as it was typed, and its `model.path`; without any, the recipe's own."""
    if not names:
        return [(composed.config.model.path, composed.config.model.path)]
    found = []
    for name in names:
        one = compose_typed([*(overrides or ()), f"model={name}"], context, recipe_dir)
        found.append((name, one.config.model.path))
    return found


def _show(found: Contest, as_json: bool) -> None:
    from rich.console import Console

    from trl_envs.results.contest_table import contest_tables, how_played

    if as_json:
        typer.echo(json.dumps(found.as_dict(), indent=2))
        return
    console = Console()
    if not console.is_terminal:
        # Into a file or a pipe goes the whole table: there is no edge at which to cut it.
        console.width = 160
    for table in contest_tables(found):
        console.print(table)
    console.print(
        f"{how_played(found)}; figures and transcripts in {found.run.path}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
