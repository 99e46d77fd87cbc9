"""A stand-in for the program docker: `docker` on the PATH runs this file, with a folder for the engine's state.

It knows what trl-env and openenv's provider ask: version, image inspect, pull, run, logs, wait, rm. A "container" is a
process in a session of its own, as an engine's would be, so that ending docker's client doesn't end it. Images:

    server      answers 200 on the published port
    game        plays catch there, as many sessions as MAX_CONCURRENT_ENVS says (container_app.py)
    deaf        runs and never listens
    crashing    writes a line and ends with exit code 3
    unstartable is created, and can't be started (as when the port is taken)
    remote      isn't here before it is pulled; then like server
    secret      can't be pulled
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

STATE = Path(os.environ["FAKE_DOCKER"])
PROGRAMS = {
    "deaf": "import time; print('loading for ever', flush=True); time.sleep(60)",
    "crashing": "print('no such game: chess', flush=True); raise SystemExit(3)",
    "server": """
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
class Healthy(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
print("container up", flush=True)
HTTPServer(("127.0.0.1", int(sys.argv[1])), Healthy).serve_forever()
""",
}
PROGRAMS["remote"] = PROGRAMS["server"]
GAME = [sys.executable, "-m", "tests.servers.container_app"]


def main(command: str, *arguments: str) -> int:
    with (STATE / "calls").open("a") as calls:
        calls.write(json.dumps([command, *arguments]) + "\n")
    if command == "version":
        return version()
    if command == "run":
        return run(list(arguments))
    if command == "logs":
        return logs(arguments[-1])
    if command == "wait":
        return wait(arguments[0])
    if command == "rm":
        return remove(arguments[-1])
    if command == "pull":
        return pull(arguments[-1])
    if command == "image":
        return 0 if arguments[-1] not in ("remote", "secret") or (STATE / "pulled").exists() else 1
    raise AssertionError(command)


def version() -> int:
    if (STATE / "down").exists():
        print("Cannot connect to the Docker daemon. Is the docker daemon running?", file=sys.stderr)
        return 1
    print("28.0")
    return 0


def pull(image: str) -> int:
    print(f"pulling {image} ...")
    if image == "secret":
        print("pull access denied", file=sys.stderr)
        return 1
    (STATE / "pulled").touch()
    return 0


def run(arguments: list[str]) -> int:
    name, image = arguments[arguments.index("--name") + 1], arguments[-1]
    host, port, inside = arguments[arguments.index("-p") + 1].split(":")
    assert (host, inside) == ("127.0.0.1", "8000")
    pairs = dict(arguments[index + 1].split("=", 1) for index, word in enumerate(arguments) if word == "-e")
    folder = STATE / "containers" / name
    if folder.exists():
        print(f'Conflict. The container name "/{name}" is already in use', file=sys.stderr)
        return 125
    if image == "unstartable":
        folder.mkdir(parents=True)
        print(f"Bind for {host}:{port} failed: port is already allocated", file=sys.stderr)
        return 125
    command = [sys.executable, "-c", PROGRAMS[image], port] if image in PROGRAMS else GAME
    # In a session of its own and nobody's child, as the engine is no child of its client.
    if (between := os.fork()) == 0:
        os.setsid()
        if os.fork() == 0:
            engine(folder, command, {**os.environ, **pairs, "CONTAINER_PORT": port})
        os._exit(0)
    os.waitpid(between, 0)
    (STATE / "asked").touch()
    while not (folder / "pid").exists():
        time.sleep(0.01)
    print("0123456789ab")
    return 0


def engine(folder: Path, command: list[str], variables: dict[str, str]) -> None:
    """The engine's side of a container: makes it, if slowly, runs it and notes its exit code."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    time.sleep(float(os.environ.get("FAKE_DOCKER_SLOW_S", "0")))
    folder.mkdir(parents=True)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=variables, start_new_session=True)
    note(folder / "pid", process.pid)
    code = process.wait()
    note(folder / "code", code if code >= 0 else 128 - code)
    os._exit(0)


def note(file: Path, number: int) -> None:
    """A file that is there whole, or not at all, as when its container is gone."""
    with contextlib.suppress(FileNotFoundError):
        file.with_suffix(".new").write_text(str(number))
        file.with_suffix(".new").replace(file)


def logs(name: str) -> int:
    folder = STATE / "containers" / name
    with (folder / "log").open("rb") as log:
        while True:
            ended = not folder.exists() or (folder / "code").exists()
            text = log.read()
            sys.stdout.buffer.write(text)
            sys.stdout.flush()
            if ended and not text:
                return 0
            time.sleep(0.02)


def wait(name: str) -> int:
    folder = STATE / "containers" / name
    while not (folder / "code").exists():
        if not folder.exists():
            print("No such container", file=sys.stderr)
            return 1
        time.sleep(0.02)
    print((folder / "code").read_text())
    return 0


def remove(name: str) -> int:
    time.sleep(float(os.environ.get("FAKE_DOCKER_RM_SLOW_S", "0")))
    folder = STATE / "containers" / name
    if not folder.exists():
        print(f"Error response from daemon: No such container: {name}", file=sys.stderr)
        return 0
    if (folder / "pid").exists():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(int((folder / "pid").read_text()), signal.SIGKILL)
    folder.rename(STATE / f"removed-{name}")
    print(name)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
