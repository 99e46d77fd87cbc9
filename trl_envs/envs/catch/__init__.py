"""Catch (OpenSpiel): move a paddle below a falling ball."""

from trl_envs.envs.catch.environment import CatchEnv

__all__ = ["CatchEnv"]
