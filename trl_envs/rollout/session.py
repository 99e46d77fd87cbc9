"""One connection for one episode with an OpenEnv server, and opening one on a server that may be busy."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from trl_envs.errors import ServerFull, SessionLost
from trl_envs.rollout.client import OneConnectionClient
from trl_envs.rollout.failures import CONNECTION_FAILURES, hint, is_full, may_pass, reason
from trl_envs.rollout.loop import SESSIONS
from trl_envs.rollout.openenv_core import StepResult
from trl_envs.rollout.schema import fetch_action_fields

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 2.0
PAUSE_GROWTH = 1.7
SHORTEST_WAIT_S = 0.5


@dataclass(frozen=True)
class Reply:
    """What the server answered to a reset or a step.

    Args:
        observation: The game's own fields.
        reward: The server's reward for this step; None if it gave none.
        done: Whether the game is over.
    """

    observation: dict[str, Any]
    reward: float | None
    done: bool


@dataclass(frozen=True)
class SessionSettings:
    """How long to wait for what.

    Args:
        connect_timeout_s: For the connection to be established.
        call_timeout_s: For the answer to one reset or step.
        capacity_wait_s: For a free session, and for a server that can't be reached at the moment.
        ping_interval_s: Between keep-alive pings; None turns them off.
        ping_timeout_s: For the answer to a ping, after which the connection counts as dropped.
    """

    connect_timeout_s: float = 10.0
    call_timeout_s: float = 60.0
    capacity_wait_s: float = 60.0
    ping_interval_s: float | None = 20.0
    ping_timeout_s: float | None = 20.0


class Session:
    """One connection, which carries one episode. Made by `SessionOpener`.

    Args:
        url: The server's address.
        settings: Time limits.
        token: Bearer token of a private server.
    """

    def __init__(self, url: str, settings: SessionSettings, token: str | None) -> None:
        self.url = url
        self._call_timeout_s = settings.call_timeout_s
        self._lock = threading.Lock()
        self._closed = False
        self._client = OneConnectionClient(
            base_url=url,
            connect_timeout_s=settings.connect_timeout_s,
            message_timeout_s=settings.call_timeout_s,
            websocket_ping_interval_s=settings.ping_interval_s,
            websocket_ping_timeout_s=settings.ping_timeout_s,
            # openenv reads OPENENV_CLIENT_MODE otherwise, and a stray value would break every session.
            mode="simulation",
            headers={"Authorization": f"Bearer {token}"} if token else None,
        )
        SESSIONS.hold()

    def _open(self, reset_arguments: dict[str, Any]) -> Reply:
        """Connects and resets; whatever the client raises goes through."""

        async def connect_and_reset() -> StepResult[dict[str, Any]]:
            await self._client.connect()
            result: StepResult[dict[str, Any]] = await self._client.reset(**reset_arguments)
            return result

        return _reply(SESSIONS.run(connect_and_reset()))

    def step(self, action: dict[str, Any]) -> Reply:
        """Sends one action and waits for the answer.

        Args:
            action: Fields of the server's action, without a name for its type.

        Raises:
            SessionLost: The connection is gone, the server answered with an error or not at all. The session is
                closed then: what came of the action is unknown, so the episode can't go on.
        """
        if self._closed:
            raise SessionLost(f"the session with {self.url} is closed", "reset the environment before the next step")
        try:
            return _reply(SESSIONS.run(self._step(action)))
        except CONNECTION_FAILURES as error:
            self.close()
            raise SessionLost(
                f"the session with {self.url} was lost in a step: {reason(error, self._call_timeout_s)}",
                "look at the server's log; if it is only slow, raise rollout.call_timeout_s",
            ) from error

    async def _step(self, action: dict[str, Any]) -> StepResult[dict[str, Any]]:
        result: StepResult[dict[str, Any]] = await self._client.step(action)
        return result

    def close(self) -> None:
        """Ends the episode and frees the server's slot. Harmless when closed already."""
        with self._lock:
            if self._closed:
                return
            self._closed = True

        async def close() -> None:
            await self._client.close()

        try:
            SESSIONS.run(close())
        finally:
            SESSIONS.release()


class SessionOpener:
    """Opens sessions on one server, or on several that serve the same game.

    Args:
        urls: Addresses, such as `http://127.0.0.1:8001`. A session goes to the next one in turn; one that is full or
            can't be reached is passed over.
        settings: Time limits.
        token: Bearer token of a private server. It is sent in the Authorization header and appears nowhere else.

    Raises:
        ValueError: There is no address, or one is no http(s) or ws(s) address.
    """

    def __init__(
        self, urls: Sequence[str], settings: SessionSettings = SessionSettings(), token: str | None = None
    ) -> None:
        if isinstance(urls, str) or not urls:
            raise ValueError(f"urls must be a list of at least one address, got {urls!r}")
        self.urls = tuple(url.rstrip("/") for url in urls)
        for url in self.urls:
            if urlsplit(url).scheme not in ("http", "https", "ws", "wss") or not urlsplit(url).hostname:
                raise ValueError(f"{url!r} is no address of a server: write it like http://127.0.0.1:8001")
        self._settings = settings
        self._token = token
        self._turns = itertools.count()
        # An own generator: drawing from the global one would change what a seeded training run samples.
        self._jitter = random.Random()
        self._action_fields: dict[str, frozenset[str]] = {}
        self._failing_since_s: float | None = None
        self._refusal: SessionLost | None = None
        self._refuse_until_s = 0.0

    def __call__(self, **reset_arguments: Any) -> tuple[Session, Reply]:
        """Connects to a server with a free session and resets the game.

        A full server accepts the connection and refuses the first message, and frees a slot some time after its
        client has gone, so a refusal is tried again, with growing pauses, until `capacity_wait_s` has passed. The wait
        is shared: a batch resets one environment after the other, and each waiting anew for a server that is gone
        would take hours. A server that takes the connection and doesn't answer isn't asked again for as long as that
        took.

        Args:
            **reset_arguments: Passed to the server's reset. A server drops those that it doesn't know, `seed` too.

        Returns:
            The session and the answer to the reset.

        Raises:
            ServerFull: No server had a free session in time.
            SessionLost: No server could be reached in time, or one answered the reset with an error or not at all.
        """
        started_s = time.monotonic()
        if self._refusal is not None and started_s < self._refuse_until_s:
            raise SessionLost(self._refusal.message, self._refusal.hint)
        pause_s = FIRST_PAUSE_S
        while True:
            failures: dict[str, Exception] = {}
            first = next(self._turns)
            for offset in range(len(self.urls)):
                url = self.urls[(first + offset) % len(self.urls)]
                opened = self._try(url, reset_arguments, failures)
                if opened is not None:
                    self._failing_since_s = self._refusal = None
                    return opened
            now_s = time.monotonic()
            self._failing_since_s = min(self._failing_since_s or started_s, started_s)
            shortest_s = min(SHORTEST_WAIT_S, self._settings.capacity_wait_s)
            left_s = max(self._failing_since_s + self._settings.capacity_wait_s, started_s + shortest_s) - now_s
            if left_s <= 0:
                raise self._given_up(failures)
            time.sleep(min(left_s, pause_s * self._jitter.uniform(0.5, 1.5)))
            pause_s = min(pause_s * PAUSE_GROWTH, LONGEST_PAUSE_S)

    def _try(
        self, url: str, reset_arguments: dict[str, Any], failures: dict[str, Exception]
    ) -> tuple[Session, Reply] | None:
        """One attempt at one address; a failure that may pass is noted in `failures`."""
        session = Session(url, self._settings, self._token)
        started_s = time.monotonic()
        try:
            return session, session._open(reset_arguments)
        except CONNECTION_FAILURES as error:
            session.close()
            if not may_pass(error):
                lost = SessionLost(
                    f"{url} refused to start an episode: {reason(error, self._settings.call_timeout_s)}",
                    hint(error),
                )
                if isinstance(error, TimeoutError):
                    now_s = time.monotonic()
                    self._refusal, self._refuse_until_s = lost, 2 * now_s - started_s
                raise lost from error
            failures[url] = error
            return None
        except BaseException:
            session.close()
            raise

    def _given_up(self, failures: dict[str, Exception]) -> ServerFull | SessionLost:
        """The error that sums up the last round of attempts."""
        reasons = "; ".join(f"{url}: {reason(e, self._settings.call_timeout_s)}" for url, e in failures.items())
        waited = f"after {self._settings.capacity_wait_s:g} s"
        if any(is_full(error) for error in failures.values()):
            return ServerFull(
                f"no free session {waited}: {reasons}",
                "raise the server's MAX_CONCURRENT_ENVS, use more servers (a list of urls), or ask for fewer sessions "
                "(grpo.per_device_train_batch_size x gradient_accumulation_steps); rollout.capacity_wait_s is the wait",
            )
        return SessionLost(
            f"no server could be reached {waited}: {reasons}",
            "check that the server runs at this address and look at its log",
        )

    def action_fields(self) -> frozenset[str]:
        """Names of the fields of the server's action, from its /schema; asked once for each address.

        Raises:
            SessionLost: No address answers with a schema.
        """
        lost: SessionLost | None = None
        for url in self.urls:
            if url not in self._action_fields:
                try:
                    self._action_fields[url] = fetch_action_fields(url, self._settings.connect_timeout_s, self._token)
                except SessionLost as error:
                    lost = error
                    continue
            return self._action_fields[url]
        assert lost is not None
        raise lost


def _reply(result: StepResult[dict[str, Any]]) -> Reply:
    reward = None if result.reward is None else float(result.reward)
    return Reply(observation=result.observation, reward=reward, done=bool(result.done))
