"""Settings of the whole suite: no test may reach for a network, or wait for one that isn't there."""

from __future__ import annotations

import os

# Read by huggingface_hub when it is imported, so before any test module is.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
# Read by OpenMP when torch is imported. Spinning threads of two test processes, and of the children that they start,
# would keep each other from working.
os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
os.environ["OMP_NUM_THREADS"] = "1"
