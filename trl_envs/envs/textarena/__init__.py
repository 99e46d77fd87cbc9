"""TextArena's games behind OpenEnv's wire: the server that wordle and sudoku share, and how its answers are read."""
