"""The embedded wordle server: `uvicorn trl_envs.envs.wordle.server:app`."""

from __future__ import annotations

from trl_envs.envs.textarena.server import build_textarena_app
from trl_envs.envs.textarena.settings import GameKind

WORDLE = GameKind(
    ids=("Wordle-v0", "Wordle-v0-hardcore", "Wordle-v0-long", "Wordle-v0-long-hardcore"),
    limits={"word_length": (2, 15), "num_guesses": (1, 100)},
)

app = build_textarena_app(WORDLE)
