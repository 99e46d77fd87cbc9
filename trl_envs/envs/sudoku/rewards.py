"""Reward terms of sudoku, with the numbers of TRL's Sudoku example as defaults. Those "of each move" are averages."""

from __future__ import annotations

from trl_envs.envs.episode import Episode

# A float holds no more than a thousand.
DOUBLINGS = 64


def solved(episode: Episode) -> float:
    """The server's reward for the last move: 1.0 for a solved grid, 0.0 in an unfinished game.

    Where the server ended the game itself (two invalid moves in a row, its limit of turns) it is the share of the empty
    cells that were filled.
    """
    return next((event.reward for event in reversed(episode.events) if event.reward is not None), 0.0)


def progress(episode: Episode) -> float:
    """Cells filled since the start as a share of those that were empty then; 1.0 if there was nothing to fill."""
    empty = episode.facts.get("empty", 0)
    return float(episode.facts["filled"] / empty) if empty else 1.0


def empty_cell(episode: Episode) -> float:
    """For each move 1.0 if it went to an empty cell and -1.0 if it didn't; 0.0 without moves."""
    moves = episode.facts.get("moves", 0)
    return float((2 * episode.facts["on_empty"] - moves) / moves) if moves else 0.0


def valid_move(episode: Episode, *, warned: float = -0.5) -> float:
    """For each move 1.0 if it was accepted; 0.0 without moves.

    Args:
        episode: The played episode.
        warned: For a move that was invalid and didn't end the game; one that ended it counts 0.0.
    """
    moves = episode.facts.get("moves", 0)
    return float((episode.facts["accepted"] + warned * episode.facts["warned"]) / moves) if moves else 0.0


def repetition(episode: Episode, *, most: float = 10.0) -> float:
    """For each move that was made before a penalty that doubles with every time, from -1.0 on; 0.0 without moves.

    Args:
        episode: The played episode.
        most: The largest penalty of a move.
    """
    moves = episode.facts.get("moves", 0)
    return (
        0.0 - sum(min(2.0 ** min(repeat - 1, DOUBLINGS), most) for repeat in episode.facts["repeats"]) / moves
        if moves
        else 0.0
    )
