from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.official import CHECKOUT_VARIABLE, OFFICIAL, checkout, prepare, serving_official, versions

_reported: dict[str, str] = {}


class OfficialServers:
    """Starts each official server when it is first asked for."""

    def __init__(self, source: Path, log_dir: Path, open_until_the_end: ExitStack) -> None:
        self._source = source
        self._log_dir = log_dir
        self._stack = open_until_the_end
        self._urls: dict[str, str] = {}

    def url(self, game: str) -> str:
        if game not in self._urls:
            self._urls[game] = self._stack.enter_context(serving_official(game, self._source, self._log_dir))
            official = OFFICIAL[game]
            _reported[official.folder] = versions(prepare(official, self._source))
        return self._urls[game]


@pytest.fixture(scope="session")
def official(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OfficialServers]:
    source = checkout()
    if source is None:
        pytest.skip(f"needs {CHECKOUT_VARIABLE}: a checkout of https://github.com/meta-pytorch/OpenEnv")
    with ExitStack() as stack:
        yield OfficialServers(source, tmp_path_factory.mktemp("official"), stack)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Says what was played against."""
    for folder, installed in _reported.items():
        terminalreporter.write_line(f"{folder}: {installed}")
