"""What runs in a stand-in container: the game of catch, with as many sessions as MAX_CONCURRENT_ENVS says."""

from __future__ import annotations

import os

import uvicorn

if __name__ == "__main__":
    print("container up", flush=True)
    port = int(os.environ["CONTAINER_PORT"])
    uvicorn.run("trl_envs.envs.catch.server:app", host="127.0.0.1", port=port, log_level="warning")
