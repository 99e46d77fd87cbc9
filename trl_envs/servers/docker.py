"""An environment server in a container, a child process of the launcher:

    python -m trl_envs.servers.docker NAME IMAGE HOST:PORT [KEY=VALUE ...]

runs the image as container NAME through OpenEnv's provider, the server's port 8000 published at HOST:PORT, shows what
the container writes, and ends with it. The container is removed however this ends; if this process is killed, whoever
started it removes NAME (`ProcessSpec.cleanup`).
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import FrameType
from typing import Any

PROVIDERS_FILE = "core/containers/runtime/providers.py"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
REMOVE_TIMEOUT_S = 20.0
# An engine that was told to make a container may still make it for a moment after its client has gone.
MADE_LATE_S = 1.0
LAST_WORDS_S = 2.0


def provider_of(name: str) -> Any:
    """OpenEnv's provider for the engine of this machine, made to run a container under a name that others know too.

    That of openenv 0.10.0 makes a name of its own, and leaves a container that doesn't stop within 10 s, or that docker
    made and couldn't start: its `stop_container` isn't used here, `remove` is.

    Raises:
        RuntimeError: No container can be run here.
    """
    package = find_spec("openenv")
    assert package is not None and package.submodule_search_locations
    # From its own file: importing it as openenv.core... loads gradio too, and with it several seconds.
    spec = spec_from_file_location("openenv_providers", Path(package.submodule_search_locations[0]) / PROVIDERS_FILE)
    assert spec is not None and spec.loader is not None
    providers = module_from_spec(spec)
    spec.loader.exec_module(providers)
    provider = providers.LocalDockerProvider()
    provider._generate_container_name = lambda image: name
    return provider


def main(arguments: list[str]) -> int:
    """Runs the container that the arguments describe until it ends; returns the exit code."""
    name, image, address, *pairs = arguments
    variables = dict(pair.split("=", 1) for pair in pairs)
    for signum in SIGNALS:
        signal.signal(signum, _leave)
    late_s = MADE_LATE_S
    try:
        # Docker's -p takes HOST:PORT where the provider speaks of a port; a port alone would be open to the network.
        provider_of(name).start_container(image, address, variables)
        late_s = 0.0
        return follow(name, image)
    except RuntimeError as error:
        print(f"the container {name} of {image} can't be run: {error}", file=sys.stderr, flush=True)
        return 1
    finally:
        for signum in SIGNALS:
            signal.signal(signum, signal.SIG_IGN)
        remove(name, late_s)


def follow(name: str, image: str) -> int:
    """Passes on what a container writes until it ends; returns an exit code other than 0."""
    logs = subprocess.Popen(["docker", "logs", "--follow", name], stdin=subprocess.DEVNULL)
    try:
        done = subprocess.run(
            ["docker", "wait", name],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        with contextlib.suppress(subprocess.TimeoutExpired):
            logs.wait(LAST_WORDS_S)
    finally:
        logs.kill()
        logs.wait()
    said = done.stdout.strip()
    if done.returncode != 0 or not said.isdigit():
        print(f"the container {name} is lost: {said}", file=sys.stderr, flush=True)
        return 1
    why = " (killed; out of memory?)" if said == "137" else ""
    print(f"the container {name} of {image} ended with exit code {said}{why}", file=sys.stderr, flush=True)
    return int(said) or 1


def remove(name: str, late_s: float = 0.0) -> None:
    """Removes a container, running or not, with its volumes; harmless if there is none.

    Args:
        name: Its name.
        late_s: Seconds for which a container is looked for that isn't there yet.
    """
    give_up_at_s = time.monotonic() + late_s
    command = ["docker", "rm", "--force", "--volumes", name]
    while True:
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=REMOVE_TIMEOUT_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            print(f"the container {name} may be left: {error}", file=sys.stderr, flush=True)
            return
        # Docker prints the name of what it removed, and gives exit code 0 if there was nothing.
        if name in done.stdout.split() or time.monotonic() >= give_up_at_s:
            return
        time.sleep(0.1)


def _leave(signum: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + signum)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
