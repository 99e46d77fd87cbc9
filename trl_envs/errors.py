"""Every error that trl-env raises on purpose.

    TrlEnvError
    ├── ConfigError          what was asked for can't be understood            exit 2
    ├── PreflightError       it is understood, and can't work                  exit 2
    ├── StartupError         a process or server didn't become ready           exit 3
    ├── ProcessExited        a process that was needed ended                   exit 4
    ├── TrainingFailed       training ended without having trained             exit 1
    ├── Interrupted          Ctrl-C or a signal                                exit 130 / 143
    └── SessionError         (rollout) a session with an environment server
        ├── SessionLost      the episode can't go on: it is unscored
        └── ServerFull       no free session before the deadline

A message says what is wrong with which value; the hint is a command or an override that fixes it. Foreign exceptions
are translated once, where they enter; unknown ones keep their traceback.
"""

from __future__ import annotations

from signal import SIGINT, Signals


class TrlEnvError(Exception):
    """An error with a cause a person can act on.

    Args:
        message: What is wrong, naming the value and the reason.
        hint: What to do about it: an override, a command, or where to look.
    """

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n\nhint: {self.hint}" if self.hint else self.message


class ConfigError(TrlEnvError):
    """A recipe, an override or a file that can't be understood."""

    exit_code = 2


class PreflightError(TrlEnvError):
    """A configuration that is well formed and can't work."""

    exit_code = 2


class StartupError(TrlEnvError):
    """A process or a server that didn't become ready."""

    exit_code = 3


class ProcessExited(TrlEnvError):
    """A process that the run needs ended before the run did."""

    exit_code = 4


class TrainingFailed(TrlEnvError):
    """Training that ended without having trained."""

    exit_code = 1


class Interrupted(TrlEnvError):
    """The run was stopped by a signal.

    Args:
        signum: The signal's number; the exit code is 128 + signum.
    """

    def __init__(self, signum: int) -> None:
        super().__init__(f"stopped by {'Ctrl-C' if signum == SIGINT else Signals(signum).name}")
        self.signum = signum
        self.exit_code = 128 + signum


class SessionError(TrlEnvError):
    """A session with an environment server went wrong."""


class SessionLost(SessionError):
    """The session is gone or can't be trusted: the episode is lost and its reward terms are None."""


class ServerFull(SessionError):
    """The server had no free session before the deadline."""
