"""A Sudoku grid: read from the server's drawing, shown compactly, and the candidates of its cells."""

from __future__ import annotations

import re
from dataclasses import dataclass

SIZE, BOX = 9, 3
# A row as textarena/envs/Sudoku/env.py draws it: `R1  .  8  9 |  1  .  . |  .  3  7`.
ROW = re.compile(r"^R([1-9]) +([1-9.](?:[ |]+[1-9.]){8})\s*$", re.MULTILINE)


@dataclass(frozen=True)
class Grid:
    """81 cells, row by row; 0 is an empty one. Rows and columns count from 1, as in the game."""

    cells: tuple[int, ...]

    @classmethod
    def read(cls, text: str) -> Grid | None:
        """The last grid that the server drew in a text; None if there is none."""
        rows = ROW.findall(text)[-SIZE:]
        if [number for number, _ in rows] != [str(number) for number in range(1, SIZE + 1)]:
            return None
        return cls.parse("".join(re.sub(r"[ |]", "", row) for _, row in rows))

    @classmethod
    def parse(cls, line: str) -> Grid:
        """The inverse of `line`."""
        return cls(tuple(0 if cell == "." else int(cell) for cell in line))

    @property
    def line(self) -> str:
        """81 characters, a dot for an empty cell."""
        return "".join(str(cell) if cell else "." for cell in self.cells)

    @property
    def empty(self) -> list[tuple[int, int]]:
        """Row and column of the empty cells, row by row."""
        return [(index // SIZE + 1, index % SIZE + 1) for index, cell in enumerate(self.cells) if not cell]

    def at(self, row: int, column: int) -> int:
        """The number in a cell; 0 if it is empty."""
        return self.cells[(row - 1) * SIZE + column - 1]

    def placed(self, row: int, column: int, number: int) -> Grid:
        """The grid with one more number."""
        index = (row - 1) * SIZE + column - 1
        return Grid((*self.cells[:index], number, *self.cells[index + 1 :]))

    def candidates(self, row: int, column: int) -> list[int]:
        """Numbers that are neither in the row nor in the column nor in the box of a cell, in order."""
        top, left = (row - 1) // BOX * BOX + 1, (column - 1) // BOX * BOX + 1
        taken = {self.at(row, other) for other in range(1, SIZE + 1)}
        taken |= {self.at(other, column) for other in range(1, SIZE + 1)}
        taken |= {self.at(r, c) for r in range(top, top + BOX) for c in range(left, left + BOX)}
        return [number for number in range(1, SIZE + 1) if number not in taken]

    def show(self) -> str:
        """Nine lines of nine cells with rules between the boxes: every move shows it again, so it is compact."""
        lines = []
        for row in range(SIZE):
            cells = self.line[row * SIZE : (row + 1) * SIZE]
            lines.append(" | ".join(" ".join(cells[start : start + BOX]) for start in range(0, SIZE, BOX)))
        return "\n------+-------+------\n".join("\n".join(lines[start : start + BOX]) for start in range(0, SIZE, BOX))
