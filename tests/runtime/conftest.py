from __future__ import annotations

import socket

import pytest


@pytest.fixture
def port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])
