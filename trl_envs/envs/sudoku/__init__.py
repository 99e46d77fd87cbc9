"""Sudoku (TextArena): fill the empty cells of a grid, one at a time."""

from trl_envs.envs.sudoku.environment import SudokuEnv

__all__ = ["SudokuEnv"]
