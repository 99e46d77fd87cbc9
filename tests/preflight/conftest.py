from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.loopback import LiveServer, serving


@pytest.fixture(scope="session")
def roomy() -> Iterator[LiveServer]:
    """A catch server with sessions to spare."""
    with serving("catch", 24) as server:
        yield server
