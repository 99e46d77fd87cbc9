"""The table of `trl-env eval`: every figure of every player, in the game's own words."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from trl_envs.results.contest import Contest, write_contest
from trl_envs.results.contest_table import contest_tables, how_played
from trl_envs.results.evaluation import EnvironmentResult, Evaluation
from trl_envs.results.rundir import RunDirectory
from trl_envs.results.statistics import estimate


def result(wins: int, guesses: list[float], *, by_game: bool = True) -> EnvironmentResult:
    won = estimate([1.0] * wins + [0.0] * (30 - wins))
    return EnvironmentResult(
        episodes=32,
        lost=1,
        terms={"win": won, "partial": estimate([0.1, 0.2])},
        wins=won,
        turns=estimate([5.0, 6.0]),
        tokens=estimate([]),
        tool_calls=100,
        tool_failures=3,
        games=30,
        by_game=by_game,
        figures={"guesses per win": estimate(guesses), "invalid guesses": estimate([0.0, 1.0, 1.0])},
        reward=estimate([0.3, 0.4]),
    )


def contest(folder: Path) -> Contest:
    base = Evaluation("base", "Qwen/Qwen3-1.7B", 0.0, 7, 1.0, {"wordle": result(0, [])})
    sft = replace(base, name="runs-sft", model="runs/sft", environments={"wordle": result(10, [3.0, 4.0])})
    script = replace(
        base, name="random", model="random", backend="random", environments={"wordle": result(1, [6.0], by_game=False)}
    )
    return Contest("wordle", RunDirectory.create(folder, "one"), {"base": base, "runs/sft": sft, "random": script})


def text(found: Contest, width: int = 120) -> list[str]:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    for table in contest_tables(found):
        console.print(table)
    lines: list[str] = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    return lines


def row(lines: list[str], heading: str) -> list[str]:
    [line] = [line for line in lines if line.startswith(f"│ {heading} ")]
    return [cell.strip() for cell in line.strip("│").split("│")]


def test_the_table_has_a_column_a_player_and_a_row_a_figure(tmp_path: Path) -> None:
    lines = text(contest(tmp_path))
    assert "base" in lines[1] and "runs/sft" in lines[1] and "random" in lines[1]
    assert row(lines, "won") == ["won", "0.00", "0.33", "0.03"]
    assert row(lines, "guesses per win") == ["guesses per win", "-", "3.50 ± 0.71", "6.00"]
    # Guesses that happen to be 0 and 1 alone are no share of anything.
    assert row(lines, "invalid guesses")[1] == "0.67"
    assert row(lines, "weighted sum")[1] == "0.35 ± 0.07"
    assert row(lines, "episodes") == ["episodes", "32, 30 games, 1 lost", "32, 30 games, 1 lost", "32, 1 lost"]
    assert not [line for line in lines if "tokens" in line]
    joined = " ".join(" ".join(lines).split())
    assert "95 % interval" in joined and "twice counts once" in joined
    assert how_played(contest(tmp_path)) == "seed 7, greedy play"


def test_the_same_is_said_in_json(tmp_path: Path) -> None:
    found = contest(tmp_path)
    write_contest(found)
    written = json.loads((found.run.path / "evaluation.json").read_text())
    assert written == json.loads(json.dumps(found.as_dict()))
    sft = written["players"]["runs/sft"]
    assert sft["transcripts"] == str(found.run.path / "eval" / "runs-sft.jsonl")
    assert sft["environments"]["wordle"]["figures"]["guesses per win"]["mean"] == 3.5
    assert Evaluation.from_dict({k: v for k, v in sft.items() if k != "transcripts"}) == found.evaluations["runs/sft"]
