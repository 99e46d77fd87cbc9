"""Settings of the whole suite: no test may reach for a network, or wait for one that isn't there."""

from __future__ import annotations

import os

# Read by huggingface_hub when it is imported, so before any test module is.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
