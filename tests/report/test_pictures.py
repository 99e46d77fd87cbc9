"""The curves as a picture."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from PIL import Image

from tests.recorded import bare_run, recorded_run
from tests.report.runs import evaluated_run
from trl_envs.report.contents import read_contents
from trl_envs.report.pictures import draw_panels, draw_run


def test_the_picture_is_a_png_that_grows_with_its_panels(tmp_path: Path) -> None:
    run = evaluated_run(tmp_path)
    draw_run(run)
    panels = read_contents(run).panels
    assert [panel.title for panel in panels] == ["reward", "catch.caught", "environment (seconds)"]
    draw_panels(panels[:1], tmp_path / "one.png", "a run of $5")
    with Image.open(run.curve_file) as three, Image.open(tmp_path / "one.png") as one:
        three.load()
        assert (three.format, three.width) == ("PNG", one.width)
        assert three.height > 1.5 * one.height
        colours = three.convert("RGB").getcolors(maxcolors=1_000_000)
        assert colours is not None and len(colours) > 50
    assert not list(run.path.glob("*.tmp"))
    # pyplot would look for a screen, and change what the process draws with.
    assert "matplotlib.pyplot" not in sys.modules


def test_a_run_of_few_steps_or_none_has_no_picture(tmp_path: Path) -> None:
    for run in (bare_run(tmp_path, "catch"), recorded_run(tmp_path, "catch", name="two-steps")):
        draw_run(run)
        assert not run.curve_file.exists()


def test_the_child_draws_the_run_that_it_is_given(tmp_path: Path) -> None:
    run = evaluated_run(tmp_path)
    command = [sys.executable, "-m", "trl_envs.report.pictures", str(run.path)]
    subprocess.run(command, check=True, timeout=120)
    assert run.curve_file.read_bytes().startswith(b"\x89PNG")
