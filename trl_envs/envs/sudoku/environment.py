"""Sudoku's tool, and the record of every move that its reward terms read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trl_envs.envs.game import GameEnvironment, tool
from trl_envs.envs.sudoku.grid import SIZE, Grid
from trl_envs.envs.sudoku.hints import HINTS
from trl_envs.envs.textarena.reading import INVALID, Transcript
from trl_envs.errors import ConfigError, SessionLost

if TYPE_CHECKING:
    from trl_envs.rollout.session import Reply, SessionOpener

# textarena draws the grid anew, under these words, when a number was right (textarena/envs/Sudoku/env.py).
ACCEPTED = "Board state:"


class SudokuEnv(GameEnvironment):
    """Fill the empty cells of a grid that has one solution.

    The server takes a number only if it is that of the solution. A wrong one and one for a filled cell are invalid
    moves: the second in a row ends the game without a word from the server, which the tool then says. A call with a
    number outside of 1 to 9 never reaches the server; it counts as a move and for the reward terms, not as one of two
    in a row.

    How many cells are filled at the start is the server's affair: TEXTARENA_ENV_ID and TEXTARENA_KW_CLUES.

    Facts: `solved` and `ended_by_invalid` (bool), `clues` and `empty` (filled and empty cells at the start), `filled`
    (cells filled since), `moves` (calls of the tool), `on_empty` (moves to an empty cell), `accepted` (right numbers),
    `warned` (invalid moves but for one that ended the game), `repeats` (for each move made before, how often), `board`
    (81 characters).

    Args:
        open_session: Opens a session for each episode.
        difficulty: What is told about the grid: `easy` lists up to five cells with one candidate and up to five with
            two or three, `medium` the first ten empty cells with their candidates, `hard` nothing.
        max_turns: Moves after which the game is over. The server has a limit of its own, 100 accepted moves unless its
            variable TEXTARENA_KW_MAX_TURNS says otherwise.

    Raises:
        ConfigError: A setting has a value that it can't have.
    """

    _protocols = (frozenset({"message"}),)

    _transcript: Transcript
    _grid: Grid

    def __init__(self, open_session: SessionOpener, difficulty: str = "easy", max_turns: int = 100) -> None:
        super().__init__(open_session)
        if difficulty not in HINTS:
            raise ConfigError(f"difficulty={difficulty!r} is none of {', '.join(HINTS)}", "set difficulty: easy")
        if isinstance(max_turns, bool) or not isinstance(max_turns, int) or max_turns < 1:
            raise ConfigError(f"max_turns={max_turns!r} is no positive whole number", "set max_turns: 100")
        self._hints = HINTS[difficulty]
        self._max_turns = max_turns
        self._times: dict[tuple[int, int, int], int] = {}
        self._refused: list[tuple[int, int, int]] = []

    def _begin(self, reply: Reply) -> str:
        self._transcript = Transcript(reply)
        grid = Grid.read(self._transcript.text)
        if grid is None:
            raise SessionLost(
                f"the server plays another game than Sudoku: {self._transcript.text[:120]!r}",
                "start the textarena server with TEXTARENA_ENV_ID=Sudoku-v0",
            )
        self._grid, self._times, self._refused = grid, {}, []
        empty = len(grid.empty)
        self.episode.facts = {
            "solved": False,
            "ended_by_invalid": False,
            "clues": SIZE * SIZE - empty,
            "empty": empty,
            "filled": 0,
            "moves": 0,
            "on_empty": 0,
            "accepted": 0,
            "warned": 0,
            "repeats": [],
            "board": grid.line,
        }
        return self._look()

    @tool
    def place(self, row: int, column: int, number: int) -> str:
        """Place a number in an empty cell of the Sudoku grid.

        Args:
            row: Row of the cell, from 1 to 9.
            column: Column of the cell, from 1 to 9.
            number: The digit to place, from 1 to 9.

        Returns:
            Whether the number was right, and the grid.
        """
        move = (row, column, number)
        facts = self.episode.facts
        facts["moves"] += 1
        repeat = self._times[move] = self._times.get(move, -1) + 1
        if repeat:
            facts["repeats"].append(repeat)
        on_grid = all(1 <= value <= SIZE for value in move)
        if not on_grid:
            facts["warned"] += 1
            self._end_at_limit()
            over = " Game over." if self.episode.done else ""
            raise ValueError(f"row, column and number must be from 1 to {SIZE}.{over}")
        was_empty = not self._grid.at(row, column)
        facts["on_empty"] += was_empty
        status = self._judge(move, was_empty)
        self._end_at_limit()
        return f"{status}\n{self._look()}" if not self.episode.done else f"{status} Game over.\n{self._progress()}"

    def _judge(self, move: tuple[int, int, int], was_empty: bool) -> str:
        """Sends a move and says what the server made of it."""
        row, column, number = move
        reply = self._play({"message": f"[{row} {column} {number}]"})
        new = self._transcript.take(reply)
        facts = self.episode.facts
        if ACCEPTED in new:
            self._grid = self._grid.placed(row, column, number)
            facts.update(filled=facts["filled"] + 1, accepted=facts["accepted"] + 1, board=self._grid.line)
            facts["solved"] = reply.done and (reply.reward or 0.0) >= 1.0
            placed = f"Placed {number} at row {row}, column {column}."
            return f"{placed} The grid is solved." if facts["solved"] else placed
        if INVALID not in new and not reply.done:
            raise SessionLost(f"the server's answer to a move is neither yes nor no: {new!r:.200}")
        if move not in self._refused:
            self._refused.append(move)
        where = f"row {row}, column {column}"
        why = f"{number} at {where} is wrong." if was_empty else f"{where} is already filled."
        if INVALID not in new:
            facts["ended_by_invalid"] = True
            return f"Invalid move: {why} That was the second in a row."
        facts["warned"] += 1
        return f"Invalid move: {why}" + ("" if reply.done else " A second one in a row ends the game.")

    def _end_at_limit(self) -> None:
        if self.episode.facts["moves"] >= self._max_turns:
            self.episode.done = self.episode.events[-1].done = True

    def _progress(self) -> str:
        filled, left = self.episode.facts["filled"], len(self._grid.empty)
        return f"Progress: {filled} cells filled, {left} cells empty."

    def _look(self) -> str:
        """Progress, grid, hints, and the moves that were refused; those that were accepted are in the grid."""
        parts = [self._progress(), "Board:", self._grid.show(), self._hints(self._grid)]
        if self._refused:
            tried = ", ".join(" ".join(map(str, move)) for move in self._refused)
            parts.append(f"Moves already tried: {tried}")
        return "\n".join(part for part in parts if part)
