"""Wordle (TextArena): guess a secret word from the feedback on earlier guesses."""

from trl_envs.envs.wordle.environment import WordleEnv

__all__ = ["WordleEnv"]
