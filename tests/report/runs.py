"""Runs to report on that no smoke run would leave."""

from __future__ import annotations

import math
from pathlib import Path

from tests.recorded import bare_run, end_run, write_episodes
from tests.results.test_comparison import evaluation
from trl_envs.results.evaluation import write_evaluation
from trl_envs.results.metrics import MetricsWriter
from trl_envs.results.rundir import RunDirectory

HOSTILE = (
    "</script></pre><script>document.title='owned'</script><img src=x onerror=document.title='owned'>\"'&{{ 7*7 }}"
)


def evaluated_run(folder: Path, *overrides: str, name: str = "evaluated") -> RunDirectory:
    """A catch run of 30 steps that was evaluated before and after."""
    run = bare_run(folder, "catch", *overrides, name=name)
    writer = MetricsWriter(run.metrics_file)
    for step in range(1, 31):
        caught = 0.4 + 0.02 * step + 0.05 * math.sin(step)
        writer.write(step, {"reward": caught, "rewards/catch.caught/mean": caught, "time/environment_s": 0.5})
    writer.close()
    write_evaluation(run, evaluation("before", 90, [1.0, 2.0]), "before")
    write_evaluation(run, evaluation("after", 150, [1.0, 2.0]), "after")
    end_run(run, "finished", 0, global_step=30)
    return run


def hostile_run(folder: Path) -> RunDirectory:
    """An echo run in which the model, the server and an error all try to be HTML."""
    run = bare_run(folder, "echo", name="hostile")
    event = {"tool": "echo", "arguments": {"message": HOSTILE}, "result": HOSTILE, "error": None, "reward": 1.0}
    failed = {**event, "result": None, "error": HOSTILE, "arguments": {HOSTILE: ["\udc00", HOSTILE]}}
    write_episodes(
        run,
        [{"environment": "echo", "events": [{**event, "done": False}, {**failed, "done": False}],
          "rewards": {"echo.length": 0.5 * number}} for number in range(4)],
    )  # fmt: skip
    sign = {"name": "clipped", "message": HOSTILE, "hint": HOSTILE}
    end_run(run, "failed", 4, HOSTILE, signs=[sign])
    return run


def won_wordle(folder: Path) -> RunDirectory:
    """One game of Wordle with every kind of answer."""
    run = bare_run(folder, "wordle", name="won")
    said = [
        ("[crane]", "\n[GAME] [crane]\nFeedback:\nC R A N E\nX Y G X X\nYou have 5 guesses left."),
        ("[zzzzz]", "You attempted an invalid move. 'zzzzz' is no English word."),
        ("[draft]", "\n[GAME] [draft]\nCorrect, that is the secret word. Game over."),
    ]
    events = [
        {"tool": "guess", "arguments": {"guess": guess}, "result": result, "error": None, "reward": None, "done": False}
        for guess, result in said
    ]
    facts = {"won": True, "guesses": 2, "invalid": 1, "greens": 5, "attempts": 6, "letters": 5}
    rewards = {"wordle.win": 1.33, "wordle.partial": 0.0, "wordle.invalid": -0.1}
    write_episodes(run, [{"environment": "wordle", "events": events, "facts": facts, "rewards": rewards}])
    end_run(run, "finished", 0)
    return run
