"""The command `trl-env`. Importing it loads typer and nothing else that takes time."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from trl_envs import __version__
from trl_envs.cli.baseline import baseline
from trl_envs.cli.check import check
from trl_envs.cli.collect import collect
from trl_envs.cli.doctor import doctor
from trl_envs.cli.eval import evaluate
from trl_envs.cli.list import list_recipes
from trl_envs.cli.play import play
from trl_envs.cli.report import report
from trl_envs.cli.rescore import rescore
from trl_envs.cli.runs import runs
from trl_envs.cli.serve import serve
from trl_envs.cli.sft import sft
from trl_envs.cli.show import show
from trl_envs.cli.space import space_app
from trl_envs.cli.submit import submit
from trl_envs.cli.train import train
from trl_envs.errors import TrlEnvError

_HELP = """Train language-model agents with TRL's GRPOTrainer on OpenEnv environments.

A recipe names an environment, its reward terms and the GRPO numbers; overrides change any of them:

\b
    trl-env list                                          which recipes there are
    trl-env check recipe=catch                            can it work here? says what can't, and the fix
    trl-env play recipe=catch                             play it yourself, and see the reward terms grow
    trl-env baseline recipe=catch                         what random play and a solver score; is the reward sound?
    trl-env collect recipe=catch --out data/catch         a solver's games, as conversations to learn from
    trl-env sft recipe=catch --data data/catch            a warm-up on them; train model=RUN goes on from it
    trl-env train recipe=catch preset=smoke               two steps of a tiny model on a CPU
    trl-env eval recipe=catch --model tiny --policy random          what each scores on the same games
    trl-env report RUN_DIR                                what came of a run, as a page; two runs beside each other
    trl-env rescore RUN_DIR KEY=VALUE                     what its episodes would have scored by other reward terms
    trl-env show recipe=catch grpo.learning_rate=1e-6     the whole config, without running it
    trl-env train recipe=wordle model=Qwen/Qwen3-1.7B grpo.max_steps=20

(`trl env`, without the dash, is TRL's own command and prints system information.)
"""

# Overrides such as ~key and ++key=value reach the command as they are typed.
_OVERRIDES = {"allow_extra_args": True, "ignore_unknown_options": True}

app = typer.Typer(
    name="trl-env",
    help=_HELP,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("list")(list_recipes)
app.command("show", context_settings=_OVERRIDES)(show)
app.command("check", context_settings=_OVERRIDES)(check)
app.command("play", context_settings=_OVERRIDES)(play)
app.command("baseline", context_settings=_OVERRIDES)(baseline)
app.command("collect", context_settings=_OVERRIDES)(collect)
app.command("sft", context_settings=_OVERRIDES)(sft)
app.command("train", context_settings=_OVERRIDES)(train)
app.command("eval", context_settings=_OVERRIDES)(evaluate)
app.command("submit", context_settings=_OVERRIDES)(submit)
app.command("serve", context_settings=_OVERRIDES)(serve)
app.add_typer(space_app)
app.command("report")(report)
app.command("rescore", context_settings=_OVERRIDES)(rescore)
app.command("runs")(runs)
app.command("doctor")(doctor)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"trl-env {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Options of the command itself."""


def main() -> None:
    """Runs the command; an error that trl-env raised is printed with its hint and gives its exit code."""
    try:
        app(prog_name="trl-env")
    except TrlEnvError as error:
        print(f"error: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"\nhint: {error.hint}", file=sys.stderr)
        sys.exit(error.exit_code)
