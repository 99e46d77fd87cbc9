"""What a launch consists of: processes with their arguments, environment variables, ports and readiness."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class ReadySpec:
    """How to tell that a process serves: a URL that answers 200.

    Args:
        url: Polled with GET.
        timeout_s: Seconds until a process that doesn't answer counts as failed.
        key: The config key that sets `timeout_s`.
    """

    url: str
    timeout_s: float
    key: str = ""


@dataclass(frozen=True)
class ProcessSpec:
    """One process of a launch.

    Args:
        name: Unique in the launch; the log is `logs/<name>.log`.
        argv: Program and arguments.
        variables: Environment variables set in addition to the launcher's own.
        ready: How to tell that it serves; None for a process that isn't a server.
        port: TCP port on which it listens, if any.
        host: Address on which it listens.
        cleanup: Command that removes what the process leaves outside its own process group, a container for one; run
            once the process is gone, however it went. Running it twice must do no harm.
        at_terminal: Whether a person talks with it: it has the launcher's own input and output, and no log.
    """

    name: str
    argv: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    ready: ReadySpec | None = None
    port: int | None = None
    host: str = "127.0.0.1"
    cleanup: tuple[str, ...] = ()
    at_terminal: bool = False

    def command(self) -> str:
        """The process as one line that can be pasted into a shell."""
        variables = [f"{name}={shlex.quote(value)}" for name, value in self.variables.items()]
        return " ".join([*variables, shlex.join(self.argv)])
