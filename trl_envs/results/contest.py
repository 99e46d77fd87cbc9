"""What `trl-env eval` found: several players on the same games, one after the other."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trl_envs.results.evaluation import Evaluation
from trl_envs.results.jsonlines import json_ready
from trl_envs.results.rundir import RunDirectory, write_whole

FILE = "evaluation.json"


@dataclass(frozen=True)
class Contest:
    """The evaluations of several players.

    Args:
        recipe: Name of the recipe.
        run: Directory with all that was played.
        evaluations: Results by the players' labels; `Evaluation.name` is that of a player's files.
    """

    recipe: str
    run: RunDirectory
    evaluations: Mapping[str, Evaluation]

    def transcripts(self, label: str) -> Path:
        """A player's episodes with all messages, one a line."""
        return self.run.eval_dir / f"{self.evaluations[label].name}.jsonl"

    def as_dict(self) -> dict[str, Any]:
        """JSON-able; what evaluation.json holds and `--json` prints."""
        players = {
            label: {**asdict(one), "transcripts": str(self.transcripts(label))}
            for label, one in self.evaluations.items()
        }
        described: dict[str, Any] = json_ready(
            {"recipe": self.recipe, "directory": str(self.run.path), "players": players}
        )
        return described


def write_contest(found: Contest) -> None:
    """Writes evaluation.json, whole or not at all."""
    write_whole(found.run.path / FILE, json.dumps(found.as_dict(), indent=2, ensure_ascii=False) + "\n")
