"""A page in a headless Chromium, over its DevTools protocol (https://chromedevtools.github.io/devtools-protocol/)."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), ""
)
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--remote-debugging-port=0")  # fmt: skip
PATIENCE_S = 90.0


class Tab:
    """An opened page, and what happened while it was loaded.

    Attributes:
        requests: Addresses that it asked for.
        problems: Requests that failed, exceptions of scripts, and messages on the console.
    """

    def __init__(self, socket: ClientConnection) -> None:
        self.requests: list[str] = []
        self.problems: list[str] = []
        self._socket = socket
        self._numbers = itertools.count(1)
        self._loaded = False
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The answer to one command."""
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = self._next()
            if message.get("id") == number:
                assert "error" not in message, message
                return dict(message["result"])

    def open(self, page: Path) -> None:
        """Opens a file and waits until all of it is there."""
        self.ask("Page.navigate", url=page.as_uri())
        while not self._loaded:
            self._next()
        # Whatever comes late, such as a script's own request, is behind this answer.
        self.value("new Promise((done) => setTimeout(() => done(1), 300))")

    def value(self, script: str) -> Any:
        """The value of an expression in the page."""
        return self.ask("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)["result"].get(
            "value"
        )

    def _next(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self._socket.recv(timeout=PATIENCE_S))
        method, said = message.get("method"), message.get("params", {})
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Network.requestWillBeSent":
            self.requests.append(said["request"]["url"])
        elif method == "Network.loadingFailed":
            self.problems.append(f"request failed: {said.get('errorText')} {said.get('blockedReason', '')}")
        elif method == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(said["exceptionDetails"]))
        elif method in ("Runtime.consoleAPICalled", "Log.entryAdded"):
            self.problems.append(json.dumps(said))
        return message


@contextmanager
def tab(profile: Path) -> Iterator[Tab]:
    """A tab of a browser of its own, which is ended afterwards."""
    log = profile.with_suffix(".log")
    with log.open("w") as output:
        browser = subprocess.Popen(
            [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "about:blank"], stdout=output, stderr=output
        )
    try:
        deadline_s = time.monotonic() + PATIENCE_S
        while not (found := re.search(r"DevTools listening on ws://([\d.:]+)/", log.read_text())):
            assert browser.poll() is None and time.monotonic() < deadline_s, log.read_text()
            time.sleep(0.1)
        with urllib.request.urlopen(f"http://{found[1]}/json/list", timeout=PATIENCE_S) as answer:
            [target] = [one for one in json.load(answer) if one["type"] == "page"]
        with connect(target["webSocketDebuggerUrl"], max_size=None) as socket:
            yield Tab(socket)
    finally:
        browser.terminate()
        browser.wait(timeout=PATIENCE_S)
