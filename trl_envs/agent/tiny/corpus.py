"""Texts of games whose environments the tokenizer must know before they are written: wordle and sudoku.

Made up, in the words of TextArena's Wordle and Sudoku (textarena/envs/Wordle/env.py, textarena/envs/Sudoku/env.py) and
of the tools that play them. Only the tokenizer learns from them.
"""

from __future__ import annotations

import json
import random
from typing import Any

LETTERS = "eeeeaaarrriiooottnnnsslllccuuddpmhgbfywkv"
THOUGHTS = (
    "Let me think about which letters are still possible. ",
    "The feedback says that some letters are in the wrong position. ",
    "I know which letters are not in the word, so I try another word. ",
    "This cell has only one candidate left. ",
    "The first guess should have common letters and vowels. ",
)
WORDLE_PROMPT = (
    "You are an expert Wordle player. Guess the secret 5-letter word in 6 attempts with the tool guess.\n"
    "Use the feedback of earlier guesses: G is the correct letter in the correct position, Y is a letter of the word "
    "in the wrong position, X is a letter that is not in the word. Make one guess at a time.\n"
    "You are Playing Wordle.\nA secret 5-letter word has been chosen. You have 6 attempts to guess it.\n"
    "For each guess, wrap your word in square brackets (e.g., '[apple]').\n"
    "Feedback for each letter will be given as follows:\n"
    "  - G (green): correct letter in the correct position\n"
    "  - Y (yellow): letter exists in the word but in the wrong position\n"
    "  - X (wrong): letter is not in the word\nEnter your guess to begin.\n"
)
SUDOKU_PROMPT = (
    "You are an expert Sudoku player. Fill the empty cells of the grid with the tool place: one cell at a time.\n"
    "Each row, each column and each 3x3 box contains every digit from 1 to 9 once. Empty cells are shown as '.'.\n"
    "Do not overwrite a cell that is filled, and do not repeat a move that was tried before.\n"
)


def schema(name: str, description: str, **parameters: tuple[str, str]) -> dict[str, Any]:
    """A tool's schema, in the order of keys that transformers derives from a function.

    Args:
        name: Name of the tool.
        description: First part of its docstring.
        **parameters: For each parameter its JSON type and its description.
    """
    properties = {key: {"type": kind, "description": text} for key, (kind, text) in parameters.items()}
    function = {
        "name": name,
        "description": description,
        "parameters": {"type": "object", "properties": properties, "required": list(parameters)},
        "return": {"type": "string", "description": "The feedback of the environment."},
    }
    return {"type": "function", "function": function}


WORDLE_TOOLS = [schema("guess", "Make a guess in the Wordle game.", guess=("string", "The word, as '[abcde]'."))]
SUDOKU_TOOLS = [
    schema(
        "place",
        "Place a number in an empty cell of the Sudoku grid.",
        row=("integer", "Row of the cell, from 1 to 9."),
        column=("integer", "Column of the cell, from 1 to 9."),
        number=("integer", "The digit to place, from 1 to 9."),
    )
]


def call(name: str, arguments: dict[str, Any], thought: str = "") -> dict[str, Any]:
    """An assistant message with one tool call; the arguments as a JSON string, which Arrow leaves as it is."""
    function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
    message: dict[str, Any] = {"role": "assistant", "content": ""}
    if thought:
        message["reasoning_content"] = thought
    return {**message, "tool_calls": [{"type": "function", "function": function}]}


def wordle_game(rng: random.Random) -> list[dict[str, Any]]:
    """The messages of one made-up Wordle game."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": WORDLE_PROMPT}]
    for guesses_left in range(5, rng.randint(0, 4) - 1, -1):
        word = "".join(rng.choices(LETTERS, k=5))
        thought = rng.choice(THOUGHTS) if rng.random() < 0.3 else ""
        messages.append(call("guess", {"guess": f"[{word}]"}, thought))
        colours = " ".join(rng.choices("GYXXX", k=5))
        shown = f"Feedback:\n{' '.join(word.upper())}\n{colours}"
        invalid = "You attempted an invalid move. Reason:"
        answers = [
            f"You submitted [{word}].\n{shown}\nYou have {guesses_left} guesses left.",
            f"{invalid} '{word}' is not an English word. Please resubmit a valid move.",
            f"{invalid} You have already guessed '{word}' before. Please try a different word.",
        ]
        messages.append({"role": "tool", "name": "guess", "content": rng.choices(answers, weights=(8, 1, 1))[0]})
    messages.append({"role": "assistant", "content": "Done."})
    return messages


def sudoku_game(rng: random.Random) -> list[dict[str, Any]]:
    """The messages of a few moves of a made-up Sudoku game; its grids obey no rule but their layout."""
    grid = [[rng.randint(1, 9) if rng.random() < 0.7 else 0 for _ in range(9)] for _ in range(9)]
    messages: list[dict[str, Any]] = [{"role": "user", "content": SUDOKU_PROMPT + board(grid)}]
    for filled in range(1, rng.randint(2, 5) + 1):
        row, column, number = (rng.randint(1, 9) for _ in range(3))
        messages.append(call("place", {"row": row, "column": column, "number": number}))
        grid[row - 1][column - 1] = number
        status = rng.choice(
            (
                f"Placed {number} at row {row}, column {column}.",
                f"Invalid move: {number} at row {row}, column {column} violates the Sudoku rules.",
                f"Invalid move: row {row}, column {column} is already filled. You have tried this move before.",
            )
        )
        empty = sum(cell == 0 for line in grid for cell in line)
        candidates = ", ".join(f"({rng.randint(1, 9)},{rng.randint(1, 9)}): {rng.randint(1, 9)}" for _ in range(5))
        content = (
            f"{status}\nProgress: {filled} cells filled, {empty} cells empty.\nBoard:\n{board(grid)}\n"
            f"Only one candidate: {candidates}\nMoves already tried: {row} {column} {number}\n"
        )
        messages.append({"role": "tool", "name": "place", "content": content})
    messages.append({"role": "assistant", "content": "Done."})
    return messages


def board(grid: list[list[int]]) -> str:
    """A 9 x 9 grid as nine compact lines with lines between the boxes; 0 is an empty cell."""
    lines = []
    for index, row in enumerate(grid):
        cells = [str(cell) if cell else "." for cell in row]
        lines.append(" | ".join(" ".join(cells[start : start + 3]) for start in (0, 3, 6)))
        if index in (2, 5):
            lines.append("------+-------+------")
    return "\n".join(lines)


def made_up_conversations(rng: random.Random, games: int) -> list[dict[str, Any]]:
    """Conversations (`messages` and `tools`) of both games in turn.

    Args:
        rng: Decides everything in them.
        games: Number of games of each kind.
    """
    conversations: list[dict[str, Any]] = []
    for _ in range(games):
        conversations.append({"messages": wordle_game(rng), "tools": WORDLE_TOOLS})
        conversations.append({"messages": sudoku_game(rng), "tools": SUDOKU_TOOLS})
    return conversations
