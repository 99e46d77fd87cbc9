"""Whether environment servers answer: once, before a run, and again and again while it lasts.

A server that hangs (stopped, deadlocked, out of memory) keeps its connections open. Each episode on it would wait for
its time-out, one after the other, and the run would look busy for hours.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, Request, build_opener

from trl_envs.errors import ProcessExited

ANSWER_TIMEOUT_S = 5.0
INTERVAL_S = 2.0


def why_silent(url: str, timeout_s: float = ANSWER_TIMEOUT_S, token: str | None = None) -> str:
    """Why a server gives no answer to GET /health; empty if it gives one.

    Refusals of the request (401, 403, 404) are answers: not every server has that page.

    Args:
        url: Base URL.
        timeout_s: Seconds to wait for the answer.
        token: Bearer token of a private server.
    """
    request = Request(f"{url}/health")
    if token:
        # Not repeated to whatever host a redirect names.
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    try:
        build_opener(_proxies_for(url)).open(request, timeout=timeout_s).close()
    except HTTPError as error:
        with error:
            return f"it answers {error.code}" if error.code >= 500 else ""
    except (URLError, OSError, ValueError) as error:
        return str(getattr(error, "reason", error)) or type(error).__name__
    return ""


def _proxies_for(url: str) -> ProxyHandler:
    """No proxy for this machine's own servers, the environment's proxies for all others."""
    host = urlsplit(url).hostname or ""
    return ProxyHandler({}) if host in ("localhost", "::1") or host.startswith("127.") else ProxyHandler()


@dataclass(frozen=True)
class Heart:
    """One server to listen to.

    Args:
        what: What it is, in words, such as `the environment server of catch`.
        url: Its base URL.
        patience_s: Seconds of silence after which it counts as hung.
        log: The end of its log, if it is a process of the run.
        token: Bearer token of a private server.
        key: The config key that sets the patience.
        ask: Given a time-out in seconds, says what is wrong with the server, or nothing; None asks whether it answers.
    """

    what: str
    url: str
    patience_s: float
    log: Callable[[], str] | None = None
    token: str | None = field(default=None, repr=False)
    key: str = "server.heartbeat_timeout_s"
    ask: Callable[[float], str] | None = None

    def why_silent(self) -> str:
        """What is wrong with the server now; empty if nothing is."""
        timeout_s = min(ANSWER_TIMEOUT_S, self.patience_s)
        return why_silent(self.url, timeout_s, self.token) if self.ask is None else self.ask(timeout_s)


class Heartbeat:
    """Listens to servers from a thread of its own while used as a context manager.

    Args:
        hearts: Servers by name.
        interval_s: Seconds between two rounds.
    """

    def __init__(self, hearts: Mapping[str, Heart], interval_s: float = INTERVAL_S) -> None:
        self._hearts = dict(hearts)
        self._interval_s = interval_s
        self._answered_at = dict.fromkeys(self._hearts, time.monotonic())
        self._silence: dict[str, str] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="trl-env-heartbeat", daemon=True)

    def __enter__(self) -> Self:
        self._answered_at = dict.fromkeys(self._hearts, time.monotonic())
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def add(self, name: str, heart: Heart) -> None:
        """Listens to one more server from now on."""
        self._answered_at[name] = time.monotonic()
        self._hearts = {**self._hearts, name: heart}

    def remove(self, name: str) -> None:
        """Listens to a server no longer, which may then fall silent."""
        self._hearts = {known: heart for known, heart in self._hearts.items() if known != name}

    def check(self) -> None:
        """Never blocks.

        Raises:
            ProcessExited: A server has been silent for longer than its patience.
        """
        now = time.monotonic()
        for name, heart in self._hearts.items():
            silent_s = now - self._answered_at[name]
            if silent_s > heart.patience_s and name in self._silence:
                log = f"\n{heart.log()}" if heart.log else ""
                raise ProcessExited(
                    f"{heart.what} hangs: {heart.url} hasn't worked for {silent_s:.0f} s ({self._silence[name]}){log}",
                    f"look at what it was doing; if it is only slow, raise {heart.key}",
                )

    def _listen(self) -> None:
        while not self._over.wait(self._interval_s):
            for name, heart in self._hearts.items():
                reason = heart.why_silent()
                if reason:
                    self._silence[name] = reason
                else:
                    self._answered_at[name] = time.monotonic()
                    self._silence.pop(name, None)
                if self._over.is_set():
                    return
