"""All that trl-env takes from openenv, imported without its web interface.

openenv.core imports gradio, and with it pandas, for a page that nothing here serves: some four of the six seconds that
the import takes, in the server, the probe and the trainer of every run. It does without where gradio isn't installed
(openenv/core/env_server/__init__.py, 0.10.0), so gradio isn't to be found while it is imported.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def _without_gradio() -> Iterator[None]:
    if "gradio" in sys.modules:
        yield
        return
    sys.modules["gradio"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules["gradio"]


with _without_gradio():
    from openenv.core.client_types import StepResult
    from openenv.core.env_server.http_server import create_fastapi_app
    from openenv.core.env_server.interfaces import Environment
    from openenv.core.env_server.types import Action, Observation, State
    from openenv.core.generic_client import GenericEnvClient

__all__ = ["Action", "Environment", "GenericEnvClient", "Observation", "State", "StepResult", "create_fastapi_app"]
