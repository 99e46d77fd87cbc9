"""The directory of one run: where each thing lies."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from trl_envs.errors import ConfigError, TrlEnvError
from trl_envs.results.jsonlines import json_ready

_CHECKPOINT = re.compile(r"checkpoint-(\d+)")


@dataclass(frozen=True)
class RunDirectory:
    """A run's directory.

    Args:
        path: The directory; its name is the run's name.
    """

    path: Path

    @classmethod
    def create(cls, output_dir: Path, run_name: str) -> RunDirectory:
        """Makes a new directory for a run, of which this call is the only owner.

        If `output_dir/run_name` exists, the next free one of `run_name-2`, `run_name-3`, ... is made.

        Raises:
            ConfigError: The name can't be a directory's, or the place can't be written.
        """
        if run_name in ("", ".", "..") or "/" in run_name or "\0" in run_name:
            raise ConfigError(
                f"run_name={run_name!r} can't be the name of a directory in {output_dir}",
                "give a plain name: run_name=my-run; the folder around it is output_dir=FOLDER",
            )
        try:
            output_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _refused(output_dir, "output_dir", output_dir, error) from error
        for number in count(1):
            path = output_dir / (run_name if number == 1 else f"{run_name}-{number}")
            try:
                path.mkdir()
            except FileExistsError as error:
                if not path.is_dir():
                    raise _refused(path, "run_name", run_name, error) from error
            except OSError as error:
                key, value = ("run_name", run_name) if error.errno == errno.ENAMETOOLONG else ("output_dir", output_dir)
                raise _refused(path, key, value, error) from error
            else:
                return cls(path)
        raise AssertionError("unreachable: count() doesn't end")

    @property
    def name(self) -> str:
        """The run's name."""
        return self.path.name

    @property
    def config_file(self) -> Path:
        """The resolved configuration, which the children read."""
        return self.path / "config.yaml"

    @property
    def overrides_file(self) -> Path:
        """What was given on the command line, one override a line."""
        return self.path / "overrides.txt"

    @property
    def plan_file(self) -> Path:
        """The processes of the launch."""
        return self.path / "plan.json"

    @property
    def logs_dir(self) -> Path:
        """One log a process."""
        return self.path / "logs"

    @property
    def metrics_file(self) -> Path:
        """What the trainer logged, see metrics.py."""
        return self.path / "metrics.jsonl"

    @property
    def episodes_file(self) -> Path:
        """Every episode played, see episodes.py."""
        return self.path / "episodes.jsonl"

    @property
    def completions_dir(self) -> Path:
        """The model's texts, as TRL writes them."""
        return self.path / "completions"

    @property
    def record_file(self) -> Path:
        """What came of the run, see record.py."""
        return self.path / "record.json"

    @property
    def outcome_file(self) -> Path:
        """How the training worker ended, see outcome.py."""
        return self.path / "outcome.json"

    @property
    def go_file(self) -> Path:
        """There once a child that was started ahead of its turn may begin."""
        return self.path / ".go"

    @property
    def model_dir(self) -> Path:
        """The final model."""
        return self.path / "model"

    @property
    def eval_dir(self) -> Path:
        """What playing before and after training found, see evaluation.py."""
        return self.path / "eval"

    @property
    def curve_file(self) -> Path:
        """What changed over the steps as a picture, see panels.py."""
        return self.path / "curve.png"

    @property
    def report_file(self) -> Path:
        """What came of the run, as a page for a browser."""
        return self.path / "report.html"

    def checkpoints(self) -> list[Path]:
        """The trainer's `checkpoint-N` folders, the latest last."""
        if not self.path.is_dir():
            return []
        steps = {path: _CHECKPOINT.fullmatch(path.name) for path in self.path.iterdir() if path.is_dir()}
        found = [(int(match[1]), path) for path, match in steps.items() if match]
        return [path for _, path in sorted(found)]

    def last_checkpoint(self) -> Path | None:
        """The latest checkpoint that was written to its end; None without one."""
        # The trainer writes its state last (Trainer._save_checkpoint, transformers 5.24).
        whole = [path for path in self.checkpoints() if (path / "trainer_state.json").is_file()]
        return whole[-1] if whole else None

    def write_config(self, text: str) -> None:
        """Writes config.yaml, whole or not at all."""
        write_whole(self.config_file, text)

    def add_overrides(self, overrides: Sequence[str]) -> None:
        """Adds an attempt's overrides to overrides.txt, which is written whole or not at all."""
        before = self.overrides_file.read_text(encoding="utf-8") if self.overrides_file.exists() else ""
        write_whole(self.overrides_file, before + "".join(f"{override}\n" for override in overrides))

    def write_plan(self, plan: Mapping[str, Any]) -> None:
        """Writes plan.json, whole or not at all."""
        write_whole(self.plan_file, json.dumps(json_ready(plan), indent=2) + "\n")


def write_whole(path: Path, text: str) -> None:
    """Writes a file so that a reader, or a crash, finds the old text or the new one and never a part.

    Raises:
        OSError: The disk is full, or the place can't be written; what was there stays.
    """
    # Beside the file, since a rename is atomic within one file system only; by process, since two may write at once.
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with draft.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _refused(path: Path, key: str, value: object, error: OSError) -> ConfigError:
    reason = error.strerror or str(error)
    return ConfigError(
        f"the run directory {path} can't be made ({key}={value}): {reason}", f"choose another place: {key}=..."
    )


@contextmanager
def passing_run(command: str, hint: str = "") -> Iterator[RunDirectory]:
    """The directory of a run that isn't kept. An error that comes out of it names no file that is gone.

    Args:
        command: Of which command it is.
        hint: Takes the place of one that names such a file.
    """
    with TemporaryDirectory(prefix=f"trl-env-{command}-") as folder:
        try:
            yield RunDirectory(Path(folder))
        except TrlEnvError as error:
            error.message = error.message.replace(f"{folder}/logs/", "")
            if folder in error.hint:
                error.hint = hint
            error.args = (error.message,)
            raise
