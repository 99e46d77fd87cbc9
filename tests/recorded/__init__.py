"""Run directories as smoke runs of the five recipes left them: their real episodes and metrics."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trl_envs.config.compose import compose
from trl_envs.config.store import to_yaml
from trl_envs.results.jsonlines import JsonLinesWriter
from trl_envs.results.record import RunRecord, RunStatus, write_record
from trl_envs.results.rundir import RunDirectory

RECIPES = ("catch", "echo", "multi_env", "sudoku", "wordle")
BATCH = {"num_generations": 4, "per_process": 8}


def bare_run(folder: Path, recipe: str, *overrides: str, name: str = "run", **plan: Any) -> RunDirectory:
    """A run directory with a config and a plan, as of a run that hasn't played yet."""
    run = RunDirectory.create(folder, name)
    arguments = [f"recipe={recipe}", "preset=smoke", *overrides]
    composed = compose(arguments)
    run.write_config(to_yaml(composed.config))
    run.add_overrides(arguments)
    run.write_plan(
        {
            "mode": "single",
            "device": "cpu",
            "reason": "asked for",
            "batch": BATCH,
            "import_folders": list(composed.import_folders),
            "report_to": [],
            "project": "trl-env",
            **plan,
        }
    )
    return run


def recorded_run(folder: Path, recipe: str, *overrides: str, name: str = "run") -> RunDirectory:
    """A finished run with the recipe's recorded episodes and metrics."""
    run = bare_run(folder, recipe, *overrides, name=name)
    for file in (run.episodes_file, run.metrics_file):
        shutil.copy(Path(__file__).parent / recipe / file.name, file)
    end_run(run, "finished", 0)
    return run


def end_run(run: RunDirectory, status: RunStatus, exit_code: int, message: str = "", **more: Any) -> None:
    """Writes the record of a run that has ended."""
    record = RunRecord.begin(run, "recipe", "smoke", {"trl": "1.16.0", "vllm": None})
    record.end(status, exit_code, message)
    for name, value in more.items():
        setattr(record, name, value)
    write_record(run, record)


def write_episodes(run: RunDirectory, lines: Sequence[Mapping[str, Any]]) -> None:
    """Appends lines to episodes.jsonl; what they leave out is that of a first training step."""
    with JsonLinesWriter(run.episodes_file) as writer:
        for line in lines:
            blank = {"step": 1, "group": 0, "attempt": 1, "mode": "train", "process": 0, "seed": 7, "events": []}
            writer.write({**blank, "done": True, "lost": None, "facts": {}, **line})


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with its bytes."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The objects of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text().splitlines()]
