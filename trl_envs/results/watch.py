"""Following a run's metrics for signs that it can't learn."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trl_envs.errors import TrainingFailed
from trl_envs.results.metrics import MetricsTail
from trl_envs.results.sign_rules import find_signs
from trl_envs.results.signs import RunNumbers, Sign, Stretch

# By this key a line of training is told from one of evaluation and from the end of a run.
TRAINING_KEY = "reward"


def latest_stretch(
    metrics: Sequence[Mapping[str, Any]], patience_steps: int, numbers: RunNumbers, begun_at_step: int = 0
) -> Stretch | None:
    """The lines of the last steps; None while there have been fewer.

    Args:
        metrics: Lines of metrics.jsonl in order of steps.
        patience_steps: How many steps to judge. A line stands for all steps since the one before it.
        numbers: The run's.
        begun_at_step: The step at which the lines begin; above 0 in a run that was resumed.
    """
    lines = [line for line in metrics if TRAINING_KEY in line and isinstance(line.get("step"), int)]
    if not lines:
        return None
    last = lines[-1]["step"]
    if last - begun_at_step < patience_steps:
        return None
    # A line that ends within the last steps reaches back to the one before it.
    first = next(index for index, line in enumerate(lines) if line["step"] > last - patience_steps)
    since = lines[first - 1]["step"] if first else begun_at_step
    if last - since < patience_steps:
        return None
    return Stretch(lines[first:], lines[:first], last - since, numbers)


class RunWatch:
    """Reads a run's metrics as they come, and tells each sign once.

    Args:
        metrics_file: May not exist yet; what an earlier attempt wrote isn't judged.
        numbers: The run's.
        patience_steps: Steps for which a sign must last.
        stop: Whether a sign ends the run.
        tell: Called with each new sign.

    Attributes:
        signs: What has been seen, in that order.
    """

    def __init__(
        self,
        metrics_file: Path,
        numbers: RunNumbers,
        patience_steps: int,
        *,
        stop: bool = False,
        tell: Callable[[Sign], None] = lambda sign: None,
    ) -> None:
        self.signs: list[Sign] = []
        self._tail = MetricsTail(metrics_file)
        self._numbers = numbers
        self._patience_steps = patience_steps
        self._stop = stop
        self._tell = tell
        self._lines: list[dict[str, Any]] = []
        self._earlier_steps = [step for line in self._tail.new() if isinstance(step := line.get("step"), int)]

    def look(self) -> None:
        """Judges what is new; to be called a few times a second.

        Raises:
            TrainingFailed: A sign was seen, and such a run is to be stopped.
        """
        # A shared drive that is away for a moment: the next look reads on from the same place.
        with contextlib.suppress(OSError):
            for line in self._tail.new():
                self._lines.append(line)
                self._judge()
        if self._stop and self.signs:
            sign = self.signs[0]
            raise TrainingFailed(
                f"stopped at step {self._lines[-1].get('step')} (watch.on_dead_signal=stop), {sign.name}: "
                f"{sign.message}",
                sign.hint,
            )

    def _judge(self) -> None:
        first = next((step for line in self._lines if isinstance(step := line.get("step"), int)), 0)
        # A resumed run goes through the steps after its checkpoint again.
        begun = max((step for step in self._earlier_steps if step < first), default=0)
        stretch = latest_stretch(self._lines, self._patience_steps, self._numbers, begun)
        if stretch is None:
            return
        known = {sign.name for sign in self.signs}
        for sign in find_signs(stretch):
            if sign.name not in known:
                self.signs.append(sign)
                self._tell(sign)
