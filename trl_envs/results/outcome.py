"""How the training worker ended, in its own words: outcome.json, from which the launcher learns the cause."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from trl_envs import errors
from trl_envs.errors import TrainingFailed, TrlEnvError
from trl_envs.results.rundir import RunDirectory, write_whole


@dataclass(frozen=True)
class Outcome:
    """The end of a worker that could still speak.

    Args:
        global_step: Optimizer steps taken; None if it failed.
        error: Class name of the error, one of trl_envs.errors; empty if it succeeded.
        message: What went wrong.
        hint: What to do about it.
    """

    global_step: int | None = None
    error: str = ""
    message: str = ""
    hint: str = ""

    @classmethod
    def of_error(cls, error: TrlEnvError) -> Outcome:
        """The outcome of a failed worker."""
        return cls(error=type(error).__name__, message=error.message, hint=error.hint)

    def exception(self) -> TrlEnvError | None:
        """The worker's error, to raise it in the launcher; None if it succeeded."""
        if not self.error:
            return None
        kind = getattr(errors, self.error, None)
        if isinstance(kind, type) and issubclass(kind, TrlEnvError):
            return kind(self.message, self.hint)
        return TrainingFailed(self.message, self.hint)


def write_outcome(run: RunDirectory, outcome: Outcome) -> None:
    """Writes outcome.json, whole or not at all."""
    write_whole(run.outcome_file, json.dumps(asdict(outcome), indent=2) + "\n")


def read_outcome(run: RunDirectory) -> Outcome | None:
    """What the worker left; None if it died without a word."""
    try:
        return Outcome(**json.loads(run.outcome_file.read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError, TypeError):
        return None
