"""Echo: the smallest environment, which sends back what it is told and rewards length."""

from trl_envs.envs.echo.environment import EchoEnv

__all__ = ["EchoEnv"]
