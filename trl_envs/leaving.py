"""What a run leaves for people at its end, however it ended: the report's page, and the curves as a picture."""

from __future__ import annotations

import sys

from trl_envs.config.schema import TrainConfig
from trl_envs.plan.spec import ProcessSpec
from trl_envs.report.contents import read_contents
from trl_envs.report.page import write_page
from trl_envs.results.panels import worth_drawing
from trl_envs.results.rundir import RunDirectory
from trl_envs.runtime.supervisor import Supervisor


def leave_report(run: RunDirectory, config: TrainConfig, *, picture: bool) -> str:
    """Writes report.html and curve.png; the run's outcome stays what it was, whatever happens here.

    Args:
        run: The run's directory, its record written.
        config: The run's.
        picture: Whether to draw curve.png too, which takes a child and two seconds: not for somebody who has pressed
            Ctrl-C and waits.

    Returns:
        Why something couldn't be written; empty if all is there.

    Raises:
        Interrupted: Ctrl-C or a signal came meanwhile.
    """
    # Inside, a signal is noted and nothing breaks off in the middle.
    with Supervisor(run.logs_dir) as supervisor:
        try:
            contents = read_contents(run, config)
            write_page([contents], run.report_file)
        except Exception as error:
            # The run's own end is what matters; the same command shows where this one comes from.
            return (
                f"{run.report_file.name} can't be written ({type(error).__name__}: {error}); trl-env report {run.path}"
            )
        if not picture or not worth_drawing(contents.panels):
            return ""
        spec = ProcessSpec("report", (sys.executable, "-m", "trl_envs.report.pictures", str(run.path)))
        child = supervisor.start(spec)
        code = supervisor.watch(child, tick_s=0.05)
    return "" if code == 0 else f"{run.curve_file.name} can't be drawn: {child.describe_exit()}, see {child.log}"
