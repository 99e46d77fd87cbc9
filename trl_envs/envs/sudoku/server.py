"""The embedded sudoku server: `uvicorn trl_envs.envs.sudoku.server:app`.

TEXTARENA_KW_CLUES sets the number of filled cells. textarena removes cells one by one and puts back those without which
the puzzle had two solutions, so below about 40 a board has more clues than asked for, and below 30 making it can take
many seconds.
"""

from __future__ import annotations

from trl_envs.envs.textarena.server import build_textarena_app
from trl_envs.envs.textarena.settings import GameKind

SUDOKU = GameKind(
    ids=("Sudoku-v0", "Sudoku-v0-very-easy", "Sudoku-v0-easy", "Sudoku-v0-medium", "Sudoku-v0-hard"),
    # A puzzle of fewer than 17 clues has more than one solution; one of 81 is solved.
    limits={"clues": (17, 80), "max_turns": (1, 1_000_000)},
)

app = build_textarena_app(SUDOKU)
