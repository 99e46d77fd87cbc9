from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from trl_envs.cli.progress import TrainingProgress
from trl_envs.results.metrics import MetricsWriter

STEP = {
    "reward": 0.5,
    "rewards/catch.caught/mean": 0.5625,
    "rewards/catch.moves/mean": None,
    "rewards/catch.caught/std": 0.1,
    "time/environment_s": 1.25,
    "time/generation_s": 4.0,
    "episodes/played": 16,
    "episodes/lost": 0,
}


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class Terminal(io.StringIO):
    """A terminal that remembers what was written."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture
def metrics(tmp_path: Path) -> Iterator[MetricsWriter]:
    writer = MetricsWriter(tmp_path / "metrics.jsonl")
    yield writer
    writer.close()


def plain_console() -> Console:
    return Console(file=io.StringIO(), force_terminal=False, width=40)


def terminal(width: int = 200) -> Console:
    return Console(file=Terminal(), force_terminal=True, width=width, height=20, legacy_windows=False, _environ={})


def written(console: Console) -> str:
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_a_plain_line_for_each_step_where_there_is_no_terminal(tmp_path: Path, metrics: MetricsWriter) -> None:
    console, clock = plain_console(), Clock()
    with TrainingProgress(console, tmp_path / "metrics.jsonl", 4, clock) as progress:
        progress.tick()
        clock.now_s += 10
        metrics.write(1, STEP)
        progress.tick()
        progress.tick()
        clock.now_s += 5
        metrics.write(2, {**STEP, "episodes/lost": 3, "rewards/catch.moves/mean": -0.25})
        progress.tick()
        metrics.write(2, {"eval_reward": 1.0})
        clock.now_s += 1
        metrics.write(4, {**STEP, "reward": None})
    assert written(console).splitlines() == [
        "step 1/4  catch.caught 0.56  catch.moves unscored  reward 0.50  16 episodes  env 1.2s  gen 4.0s  10s",
        "step 2/4  catch.caught 0.56  catch.moves -0.25  reward 0.50  32 episodes  3 lost  env 1.2s  gen 4.0s"
        "  15s, 10s left",
        "step 4/4  catch.caught 0.56  catch.moves unscored  reward unscored  48 episodes  3 lost  env 1.2s  gen 4.0s"
        "  16s",
    ]


def test_no_control_characters_and_no_markup_where_there_is_no_terminal(tmp_path: Path, metrics: MetricsWriter) -> None:
    console = plain_console()
    with TrainingProgress(console, tmp_path / "metrics.jsonl", None) as progress:
        metrics.write(1, {"rewards/[red]x\x1b[31m\r.y/mean": 1.0})
        progress.tick()
    text = written(console)
    assert text.startswith("step 1  [red]x") and text.count("\n") == 1
    assert all(character.isprintable() for character in text.rstrip("\n"))


def test_one_live_line_on_a_terminal(tmp_path: Path, metrics: MetricsWriter) -> None:
    console, clock = terminal(), Clock()
    threads = threading.active_count()
    with TrainingProgress(console, tmp_path / "metrics.jsonl", 2, clock) as progress:
        progress.tick()
        assert "step 0/2" in written(console) and "waiting for the first step" in written(console)
        metrics.write(1, {**STEP, "episodes/lost": 2})
        progress.tick()
        assert threading.active_count() == threads
        assert "\n" not in written(console)
        assert "catch.caught 0.56" in written(console)
        assert "\x1b[1;31m2 lost" in written(console)
    assert written(console).count("\n") == 1
    assert written(console).endswith("\x1b[?25h")  # the cursor is back


def test_the_spinner_turns_without_new_metrics(tmp_path: Path) -> None:
    console, clock = terminal(), Clock()
    with TrainingProgress(console, tmp_path / "metrics.jsonl", 2, clock) as progress:
        for _ in range(3):
            clock.now_s += 0.1
            progress.tick()
    assert len({character for character in written(console) if "\u2800" <= character <= "\u28ff"}) >= 3


@pytest.mark.parametrize("width", [5, 20, 60])
def test_a_narrow_terminal_gets_one_cut_line(tmp_path: Path, metrics: MetricsWriter, width: int) -> None:
    console = terminal(width)
    with TrainingProgress(console, tmp_path / "metrics.jsonl", 300) as progress:
        metrics.write(123, {**STEP, **{f"rewards/long_environment.term_{n}/mean": 0.5 for n in range(20)}})
        progress.tick()
        assert "\n" not in written(console)
        assert "…" in written(console)


def test_other_prints_go_above_the_line(tmp_path: Path) -> None:
    console = terminal()
    with TrainingProgress(console, tmp_path / "metrics.jsonl", 2) as progress:
        progress.tick()
        console.print("from the trainer")
        progress.tick()
    assert written(console).index("from the trainer\n") < written(console).rindex("step 0/2")


def test_what_an_earlier_attempt_logged_is_counted_and_not_shown_again(tmp_path: Path, metrics: MetricsWriter) -> None:
    metrics.write(1, STEP)
    metrics.write(2, STEP)
    console = plain_console()
    with TrainingProgress(console, tmp_path / "metrics.jsonl", 5) as progress:
        metrics.write(2, STEP)
        metrics.write(3, STEP)
        progress.tick()
    lines = written(console).splitlines()
    assert [line[:8] for line in lines] == ["step 3/5"]
    assert "64 episodes" in lines[0]


@pytest.mark.parametrize(
    "line",
    [
        b"{}\n",
        b"nonsense\n",
        b'{"step": "three"}\n',
        b'{"step": null, "reward": []}\n',
        b'{"step": 1.5, "reward": "high", "episodes/played": {}, "episodes/lost": null}\n',
        b'{"rewards//mean": 1, "rewards/mean": 2, "time/environment_s": true}\n',
        b"\xff\xfe\x00\n",
    ],
)
@pytest.mark.parametrize("make", [plain_console, terminal])
def test_odd_lines_are_no_trouble(tmp_path: Path, line: bytes, make: type[Console]) -> None:
    path = tmp_path / "metrics.jsonl"
    with TrainingProgress(make(), path, None) as progress:
        path.write_bytes(line)
        progress.tick()
        path.unlink()
        progress.tick()
        path.mkdir()
        progress.tick()


@pytest.mark.parametrize("force_terminal", [False, True])
def test_a_reader_that_has_gone_away_does_not_end_the_run(
    tmp_path: Path, metrics: MetricsWriter, force_terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as pipe, (tmp_path / "stdout").open("w") as stdout:
        # On a broken pipe rich puts /dev/null in place of stdout's descriptor, which here is pytest's.
        monkeypatch.setattr(sys, "stdout", stdout)
        console = Console(file=pipe, force_terminal=force_terminal, _environ={})
        with TrainingProgress(console, tmp_path / "metrics.jsonl", 3) as progress:
            os.close(reading)
            for step in (1, 2, 3):
                metrics.write(step, STEP)
                progress.tick()
        # What was left in the buffer can't be written by closing the file either.
        with pytest.raises(BrokenPipeError):
            pipe.flush()
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, writing)
        os.close(null)


def test_a_terminal_without_unicode(tmp_path: Path, metrics: MetricsWriter) -> None:
    console = Console(file=io.TextIOWrapper(io.BytesIO(), encoding="ascii"), force_terminal=True, width=30, _environ={})
    with TrainingProgress(console, tmp_path / "metrics.jsonl", 3) as progress:
        metrics.write(1, STEP)
        progress.tick()
    console.file.seek(0)
    assert "step 1/3" in console.file.read()


def test_the_optimizers_seconds_and_the_slowest_call_are_shown_where_they_are_logged(
    tmp_path: Path, metrics: MetricsWriter
) -> None:
    console = plain_console()
    with TrainingProgress(console, tmp_path / "metrics.jsonl", 4, Clock()) as progress:
        metrics.write(1, {**STEP, "time/optimization_s": 2.04, "environment/slowest_call_s": 0.456})
        progress.tick()
    assert "env 1.2s (a call up to 0.46s)  gen 4.0s  opt 2.0s" in written(console)
