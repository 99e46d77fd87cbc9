"""Games as pictures: Wordle's tiles, the Sudoku grid, Catch's board. They can be read without colours too."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.text import Text

from trl_envs.envs.catch import CatchEnv
from trl_envs.envs.catch.environment import COLUMNS, ROWS
from trl_envs.envs.catch.reading import read_places
from trl_envs.envs.episode import Episode
from trl_envs.envs.sudoku import SudokuEnv
from trl_envs.envs.sudoku.grid import BOX, SIZE, Grid
from trl_envs.envs.wordle import WordleEnv
from trl_envs.envs.wordle.environment import FEEDBACK
from trl_envs.envs.wordle.reading import taken_guess

TILES = {"G": "bold white on green", "Y": "bold black on yellow", "X": "bold white on grey37"}
# Without colours: in place, elsewhere in the word, not in it.
PLAIN_TILES = {"G": "[{}]", "Y": "({})", "X": " {} "}
LEGEND = "[A] in place, (A) elsewhere in the word"
_ECHO = re.compile(r"^\[GAME\] (?:\[\w+\]|You submitted \[\w+\]\.)\n?", re.MULTILINE)


class Picture:
    """Draws one episode of an environment, if it is of a kind that can be drawn.

    Args:
        environment: The instance; its class decides.
        coloured: Whether colours are seen; else shapes take their place.
    """

    def __init__(self, environment: object, *, coloured: bool) -> None:
        self._environment = environment
        self._coloured = coloured
        self._clues = ""

    def take(self, text: str, episode: Episode) -> tuple[str, Text | None]:
        """What a tool or `reset` said without what is drawn of it, and the drawing.

        Args:
            text: As the model gets it.
            episode: As far as it has been played.
        """
        if isinstance(self._environment, WordleEnv):
            return self._wordle(text, episode)
        if isinstance(self._environment, SudokuEnv) and episode.facts:
            return self._sudoku(text, episode)
        places = read_places(text) if isinstance(self._environment, CatchEnv) else None
        return (text, None) if places is None else (text, catch_board(*places))

    def _wordle(self, text: str, episode: Episode) -> tuple[str, Text | None]:
        rows = [row for event in episode.events if (row := taken_guess(event))]
        if not episode.events or taken_guess(episode.events[-1]) is None:
            return text, None
        shown = rows if self._coloured else rows[-1:]
        drawing = Text("\n").join(wordle_row(*row, coloured=self._coloured) for row in shown)
        if not self._coloured and len(rows) == 1:
            drawing.append(f"    {LEGEND}")
        # The server repeats the guess twice before its feedback.
        return _ECHO.sub("", FEEDBACK.sub("", text)).strip(), drawing

    def _sudoku(self, text: str, episode: Episode) -> tuple[str, Text | None]:
        grid = Grid.parse(episode.facts["board"])
        self._clues = self._clues or grid.line
        before, shown, after = text.partition(f"Board:\n{grid.show()}")
        # A game that is over shows no grid any more; a person wants to see the last one.
        last = [(event.arguments.get("row"), event.arguments.get("column")) for event in episode.events[-1:]]
        drawing = sudoku_grid(grid, self._clues, last[0] if last else None, coloured=self._coloured)
        return (before + after).strip() if shown else text, drawing


def wordle_row(word: str, colours: str, *, coloured: bool) -> Text:
    """One guess.

    Args:
        word: Its letters, with or without spaces.
        colours: G, Y or X for each.
        coloured: Whether colours are seen.
    """
    row = Text()
    for letter, colour in zip(word.replace(" ", ""), colours.replace(" ", ""), strict=True):
        if coloured:
            row.append(f" {letter} ", TILES[colour]).append(" ")
        else:
            row.append(PLAIN_TILES[colour].format(letter))
    return row


def sudoku_grid(grid: Grid, clues: str, last: Sequence[object] | None, *, coloured: bool) -> Text:
    """The grid with the numbers of its rows and columns; clues are bold, the last move's cell is marked.

    Args:
        grid: As it stands.
        clues: The grid at the start, 81 characters.
        last: Row and column of the last move.
        coloured: Whether colours are seen.
    """
    rule = "    +-------+-------+-------+\n"
    drawing = Text("      1 2 3   4 5 6   7 8 9\n", "dim" if coloured else "")
    for row in range(1, SIZE + 1):
        if row % BOX == 1:
            drawing.append(rule)
        drawing.append(f"  {row} ", "dim" if coloured else "")
        for column in range(1, SIZE + 1):
            drawing.append("| " if column % BOX == 1 else "")
            number = grid.at(row, column)
            is_clue = clues[(row - 1) * SIZE + column - 1] != "."
            style = "bold" if is_clue else "bold green" if number else "dim"
            if last is not None and tuple(last) == (row, column):
                style += " reverse"
            drawing.append(str(number) if number else ".", style if coloured else "").append(" ")
        drawing.append("|\n")
    return drawing.append(rule.rstrip())


def catch_board(ball: int, paddle: int, moves_left: int) -> Text:
    """The board in play, between its walls.

    Args:
        ball: Column of the ball, from 1.
        paddle: Column of the paddle, from 1.
        moves_left: Moves until the ball is down.
    """
    drawing = Text()
    for row in range(1, ROWS + 1):
        drawing.append("|", "dim")
        for column in range(1, COLUMNS + 1):
            if row == ROWS - moves_left and column == ball:
                drawing.append("o", "bold yellow")
            elif row == ROWS and column == paddle:
                drawing.append("=", "bold cyan")
            else:
                drawing.append(".", "dim")
        drawing.append("|" if row == ROWS else "|\n", "dim")
    return drawing
