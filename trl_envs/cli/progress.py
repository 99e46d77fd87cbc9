"""The line that shows how a training run goes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from trl_envs.results.metrics import MetricsTail, number_of, term_of
from trl_envs.results.tables import format_duration

SEPARATOR = "  "
# Of a step: seconds waited for environments, generating, and optimizing; and of the slowest reset or tool call.
SECONDS = {"time/environment_s": "env", "time/generation_s": "gen", "time/optimization_s": "opt"}
SLOWEST = "environment/slowest_call_s"
# Of a warm-up: the loss, and the share of the model's own tokens that it would have said.
LOSS = {"loss": "loss", "mean_token_accuracy": "accuracy"}
# A display that can't be written any more: closed pipe (rich makes SystemExit of that), closed file, other encoding.
DISPLAY_ERRORS = (OSError, ValueError, SystemExit)


class TrainingProgress:
    """Follows metrics.jsonl and shows the latest of it: one live line on a terminal, elsewhere a plain line a step.

    Nothing that is missing, unknown or unwritable here ends the run: what can't be shown isn't shown.

    Args:
        console: Where to show it.
        metrics_file: May not exist yet. What it holds already, of an earlier attempt, is counted and not shown again.
        total_steps: Steps of the whole run; None if it isn't known.
        clock: Seconds that never go back.
    """

    def __init__(
        self,
        console: Console,
        metrics_file: Path,
        total_steps: int | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console = console
        self._tail = MetricsTail(metrics_file)
        self._clock = clock
        self._started_s = clock()
        self._state = ProgressState(total_steps)
        unicode = console.encoding.lower().startswith("utf")
        self._spinner = Spinner("dots" if unicode else "line")
        self._overflow = "ellipsis" if unicode else "crop"
        self._live: Live | None = None
        if console.is_terminal and not console.is_dumb_terminal:
            # Refreshed by tick alone, so that there is no thread; stdout is for data and stays as it is.
            self._live = Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
        self._broken = False

    def __enter__(self) -> Self:
        self._read()
        if self._live is not None:
            self._show(self._live.start)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.tick()
        if self._live is not None:
            self._live.update(self._line(final=True))
            self._show(self._live.stop)

    def tick(self) -> None:
        """Reads what is new and shows it; to be called some five times a second."""
        printed = self._read()
        if self._live is None:
            for line in printed:
                self._show(lambda line=line: self._console.print(line, soft_wrap=True))  # type: ignore[misc]
        else:
            live, line = self._live, self._line()
            self._show(lambda: live.update(line, refresh=True))

    def _read(self) -> list[Text]:
        """Takes in new metrics; returns a line of text for each new step."""
        lines = []
        # A shared drive that is away for a moment: the next tick reads on from the same place.
        with contextlib.suppress(OSError):
            for metrics in self._tail.new():
                if self._state.take(metrics, self._clock()):
                    lines.append(self._state.text(self._elapsed_s()))
        return lines

    def _line(self, *, final: bool = False) -> Text:
        text = self._state.text(self._elapsed_s())
        if not final:
            text = Text.assemble(self._spinner.render(self._clock()), " ", text)  # type: ignore[arg-type]
        text.no_wrap, text.overflow = True, self._overflow  # type: ignore[assignment]
        return text

    def _elapsed_s(self) -> float:
        return self._clock() - self._started_s

    def _show(self, write: Callable[[], object]) -> None:
        if self._broken:
            return
        try:
            write()
        except DISPLAY_ERRORS:
            # Nobody is there to be told; the run is worth more than its display.
            self._broken = True


class ProgressState:
    """What the latest metrics say.

    Args:
        total_steps: Steps of the whole run; None if it isn't known.
    """

    def __init__(self, total_steps: int | None) -> None:
        self._total_steps = total_steps
        self._step: int | None = None
        self._terms: dict[str, float | None] = {}
        self._numbers: dict[str, float | None] = {}
        self._episodes = 0
        self._lost = 0
        # Step and time of the first and the latest line, from which follows the time that is left.
        self._first: tuple[int, float] | None = None
        self._latest: tuple[int, float] | None = None

    def take(self, metrics: Mapping[str, Any], now_s: float) -> bool:
        """Takes in a logged line; returns whether it is the first of a new step."""
        self._terms |= {term: number_of(metrics, key) for key in metrics if (term := term_of(key))}
        for key in ("reward", *LOSS, *SECONDS, SLOWEST):
            if key in metrics:
                self._numbers[key] = number_of(metrics, key)
        self._episodes += int(number_of(metrics, "episodes/played") or 0)
        self._lost += int(number_of(metrics, "episodes/lost") or 0)
        step = number_of(metrics, "step")
        if step is None or int(step) == self._step:
            return False
        self._step = int(step)
        self._latest = (self._step, now_s)
        if self._first is None or self._step < self._first[0]:
            self._first = self._latest
        return True

    def text(self, elapsed_s: float) -> Text:
        """One line: step, terms, reward, episodes, seconds of environment, generation and optimizer, time."""
        total = "" if self._total_steps is None else f"/{self._total_steps}"
        parts = [Text(f"step {self._step or 0}{total}", "bold")]
        if self._step is None:
            parts.append(Text("waiting for the first step"))
        parts += [Text(_printable(f"{term} {_value(value)}"), "cyan") for term, value in sorted(self._terms.items())]
        if "reward" in self._numbers:
            parts.append(Text(f"reward {_value(self._numbers['reward'])}"))
        else:
            # A warm-up, which plays nothing.
            parts += [Text(f"{word} {self._numbers[key]:.3f}") for key, word in LOSS.items() if self._numbers.get(key)]
        if self._episodes:
            parts.append(Text(f"{self._episodes} episodes"))
        if self._lost:
            parts.append(Text(f"{self._lost} lost", "bold red"))
        for key, word in SECONDS.items():
            if (seconds := self._numbers.get(key)) is not None:
                slowest = self._numbers.get(SLOWEST) if word == "env" else None
                parts.append(Text(f"{word} {seconds:.1f}s" + (f" (a call up to {slowest:.2f}s)" if slowest else "")))
        left_s = self._left_s()
        left = "" if left_s is None else f", {format_duration(left_s)} left"
        parts.append(Text(f"{format_duration(elapsed_s)}{left}", "dim"))
        return Text(SEPARATOR).join(parts)

    def _left_s(self) -> float | None:
        if self._total_steps is None or self._first is None or self._latest is None:
            return None
        (first_step, first_s), (step, step_s) = self._first, self._latest
        if step <= first_step or step >= self._total_steps:
            return None
        return (step_s - first_s) / (step - first_step) * (self._total_steps - step)


def _value(value: float | None) -> str:
    return "unscored" if value is None else f"{value:.2f}"


def _printable(text: str) -> str:
    return "".join(character for character in text if character.isprintable())
