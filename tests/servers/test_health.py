"""Listening to servers that answer, refuse, hang, and go away, all real sockets on loopback."""

from __future__ import annotations

import http.server
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from trl_envs.errors import ProcessExited, StartupError
from trl_envs.plan.launch_plan import EnvironmentPlan
from trl_envs.servers.health import Heart, Heartbeat, why_silent
from trl_envs.servers.start import check_answers


@contextmanager
def answering(status: int) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def hanging() -> Iterator[str]:
    """Accepts connections, as the kernel does for a stopped process, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize(("status", "silent"), [(200, False), (401, False), (404, False), (500, True), (503, True)])
def test_an_answer_is_an_answer_unless_the_server_is_broken(status: int, silent: bool) -> None:
    with answering(status) as url:
        assert bool(why_silent(url)) is silent


def test_a_server_that_hangs_or_is_not_there_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    # A proxy must not answer in place of this machine's own server.
    with answering(200) as proxy:
        monkeypatch.setenv("http_proxy", proxy)
        with hanging() as url:
            assert "timed out" in why_silent(url, timeout_s=0.1)
        assert "refused" in why_silent(url, timeout_s=0.1)


def test_a_url_that_does_not_answer_is_refused_before_the_run() -> None:
    with hanging() as url:
        pass
    with pytest.raises(StartupError, match="doesn't answer") as caught:
        check_answers("catch", EnvironmentPlan((url,), 8, None, token=False))
    assert "envs.catch.url=null" in caught.value.hint


def test_a_healthy_server_is_never_complained_of_and_the_thread_ends() -> None:
    with (
        answering(200) as url,
        Heartbeat(
            {"catch": Heart("the environment server of catch", url, patience_s=0.2)}, interval_s=0.02
        ) as heartbeat,
    ):
        until_s = time.monotonic() + 0.5
        while time.monotonic() < until_s:
            heartbeat.check()
            time.sleep(0.02)
    assert "trl-env-heartbeat" not in [thread.name for thread in threading.enumerate()]


def test_a_server_that_falls_silent_is_named_with_its_log() -> None:
    with hanging() as url:
        heart = Heart("the environment server of catch", url, patience_s=0.2, log=lambda: "the end of its log")
        with Heartbeat({"catch": heart}, interval_s=0.02) as heartbeat:
            heartbeat.check()
            started_s = time.monotonic()
            with pytest.raises(ProcessExited) as caught:
                while time.monotonic() < started_s + 5:
                    heartbeat.check()
                    time.sleep(0.02)
    assert time.monotonic() - started_s < 2
    for part in ("server of catch hangs", url, "timed out", "the end of its log"):
        assert part in caught.value.message
    assert "server.heartbeat_timeout_s" in caught.value.hint
