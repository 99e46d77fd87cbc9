"""`trl-env runs`: the runs of an output directory."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from trl_envs.cli.options import AsJson


def runs(
    output_dir: Annotated[Path, typer.Argument(help="Folder of run directories (output_dir of the runs).")] = Path(
        "runs"
    ),
    as_json: AsJson = False,
) -> None:
    """List runs with their outcomes, the newest first.

    \b
    trl-env runs
    trl-env runs /data/runs --json
    """
    from rich.console import Console

    from trl_envs.errors import ConfigError
    from trl_envs.results.runs import find_runs
    from trl_envs.results.tables import run_causes, run_table

    if not output_dir.is_dir() and output_dir != Path("runs"):
        problem = "is a file, and no folder of runs" if output_dir.exists() else "isn't there"
        raise ConfigError(f"{output_dir} {problem}", "name the output_dir of your runs")
    found = find_runs(output_dir)
    if as_json:
        rows = [
            {
                "run": str(run.directory.path),
                "status": run.status,
                "problem": run.problem,
                **({"record": asdict(run.record)} if run.record else {}),
            }
            for run in found
        ]
        typer.echo(json.dumps(rows, indent=2))
    elif not found:
        typer.echo(f"no runs in {output_dir}/ yet", err=True)
    else:
        console = Console()
        if not console.is_terminal:
            # Into a file or a pipe goes the whole table: there is no edge at which to cut it.
            console.width = 200
        console.print(run_table(found, narrow=console.width < 120))
        for line in run_causes(found):
            console.print(line, markup=False, highlight=False, soft_wrap=True)
