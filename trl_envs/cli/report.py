"""`trl-env report`: what came of a run, or of two, as a page for a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.", show_default=False)],
    other: Annotated[
        Path | None, typer.Argument(metavar="RUN2", help="Another one, to compare.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write the page; by default into RUN.")
    ] = None,
) -> None:
    """Write the report of a run: one HTML page that opens from disk, and the curves as curve.png.

    Every run leaves one at its end. The page shows how the run ended, signs that it couldn't learn, each reward term
    and its spread within groups, before and after, its best and worst episodes as games, its config and versions; of
    two runs all of it beside each other, and what was asked for differently.

    \b
    trl-env report runs/first
    trl-env report runs/first runs/second --out compared.html

    Prints where the page is. Exit codes: 0 written, 2 no run directory.
    """
    from trl_envs.errors import ConfigError
    from trl_envs.report.contents import read_contents
    from trl_envs.report.page import write_page
    from trl_envs.report.pictures import draw_run
    from trl_envs.results.rundir import RunDirectory

    runs = [RunDirectory(path.expanduser().absolute()) for path in (run, other) if path is not None]
    default = runs[0].report_file if len(runs) == 1 else runs[0].path / f"report-with-{runs[1].name}.html"
    path = default if out is None else out.expanduser().absolute()
    try:
        write_page([read_contents(one) for one in runs], path)
        for one in runs:
            draw_run(one)
    except OSError as error:
        raise ConfigError(f"the report can't be written: {error}", "name another place: --out FILE") from error
    typer.echo(path)
