"""OpenEnv's own environment servers, each from a virtual environment of its own, as child processes.

They can't be installed beside trl-env: they need `openenv-core`, whose files overwrite those of `openenv`. What is
copied from the checkout is the core package and one environment's folder, so that building them leaves nothing there.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from trl_envs.envs.textarena.words import SHIPPED
from trl_envs.machine import free_port
from trl_envs.plan.spec import ProcessSpec
from trl_envs.runtime.child import Child, start_child
from trl_envs.runtime.guard import end_groups
from trl_envs.runtime.ready import ask_ready
from trl_envs.runtime.watchdog import Watchdog

ROOT = Path(__file__).parents[2]
CHECKOUT_VARIABLE = "OPENENV"
CACHE_VARIABLE = "CONFORMANCE_CACHE"
# Of the checkout, all that building the core package reads.
CORE = ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in", "src")
# textarena's imports take the longest, and on a cold disk.
READY_TIMEOUT_S = 180.0


@dataclass(frozen=True)
class Official:
    """One game of an official server.

    Args:
        folder: Of the environment, below envs/ in the checkout.
        variables: Environment variables that choose the game.
        packages: What the server imports and its pyproject.toml doesn't name.
        sessions: MAX_CONCURRENT_ENVS.
    """

    folder: str
    variables: Mapping[str, str] = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    sessions: int = 8


# The official server would load NLTK's words from the network.
OFFLINE = {"TEXTARENA_DOWNLOAD_NLTK": "0", "NLTK_DATA": str(SHIPPED)}
OFFICIAL = {
    "echo": Official("echo_env"),
    # Its image builds OpenSpiel from source; PyPI has it too.
    "catch": Official("openspiel_env", {"OPENSPIEL_GAME": "catch"}, ("open-spiel",)),
    # Two, since each of its sessions loads four dictionaries.
    "wordle": Official("textarena_env", {"TEXTARENA_ENV_ID": "Wordle-v0", **OFFLINE}, sessions=2),
    "sudoku": Official("textarena_env", {"TEXTARENA_ENV_ID": "Sudoku-v0-easy", **OFFLINE}),
}


def checkout() -> Path | None:
    """OpenEnv's repository on this machine, from OPENENV; None if that isn't set.

    Raises:
        FileNotFoundError: There is no such repository.
    """
    text = os.environ.get(CHECKOUT_VARIABLE)
    if not text:
        return None
    folder = Path(text).expanduser().resolve()
    for part in ("pyproject.toml", "src", *(f"envs/{official.folder}" for official in OFFICIAL.values())):
        if not (folder / part).exists():
            raise FileNotFoundError(f"{CHECKOUT_VARIABLE}={text} is no checkout of OpenEnv: it has no {part}")
    return folder


def prepare(official: Official, source: Path) -> Path:
    """The Python of a virtual environment with the official environment; made, or used again if nothing has changed.

    Args:
        official: The environment.
        source: The checkout.
    """
    folder = Path(os.environ.get(CACHE_VARIABLE) or ROOT / ".conformance").resolve() / official.folder
    python, stamp, copies = folder / "venv/bin/python", folder / "prepared", folder / "source"
    contents = _contents(official, source)
    if stamp.exists() and stamp.read_text(encoding="utf-8") == contents:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
    for name in CORE:
        _copy(source / name, copies / "core" / name, ignored)
    _copy(source / "envs" / official.folder, copies / official.folder, ignored)
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    install = [python, "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, copies / "core", copies / official.folder, *official.packages], check=True)
    shutil.rmtree(copies)
    stamp.write_text(contents, encoding="utf-8")
    return python


def _copy(source: Path, target: Path, ignored: object) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=ignored)  # type: ignore[arg-type]
    elif source.exists():
        shutil.copy(source, target)


def _contents(official: Official, source: Path) -> str:
    """A digest of all that is installed but for the packages from an index."""
    digest = hashlib.sha256(repr((sys.version_info[:2], official.packages)).encode())
    for top in (*(source / name for name in CORE), source / "envs" / official.folder):
        for path in [top] if top.is_file() else sorted(top.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(str(path.relative_to(source)).encode() + path.read_bytes())
    return digest.hexdigest()


def versions(python: Path) -> str:
    """What is installed in an official environment, for the report of a run."""
    listed = subprocess.run(
        [python, "-I", "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    wanted = ("openenv", "open-spiel", "open_spiel", "textarena", "nltk", "fastmcp=", "fastapi=", "websockets=")
    return ", ".join(line for line in listed if line.lower().startswith(wanted))


@contextmanager
def serving_official(game: str, source: Path, log_dir: Path) -> Iterator[str]:
    """The URL of an official server, which is stopped afterwards; if this process is killed, a guard stops it.

    Args:
        game: A name of OFFICIAL.
        source: The checkout.
        log_dir: Takes `<game>.log`.
    """
    official = OFFICIAL[game]
    python, port = prepare(official, source), free_port()
    app = f"{official.folder}.server.app:app"
    # -I and --app-dir: nothing from the folder or the PYTHONPATH of the tests.
    argv = (str(python), "-I", "-m", "uvicorn", app, "--app-dir", str(python.parent), "--port", str(port))
    spec = ProcessSpec(game, argv, {**official.variables, "MAX_CONCURRENT_ENVS": str(official.sessions)})
    watchdog = Watchdog()
    try:
        child = start_child(spec, log_dir, watchdog)
        try:
            url = f"http://127.0.0.1:{port}"
            _wait_ready(child, url)
            yield url
        finally:
            end_groups([child.pid], 5.0)
            child.wait()
            watchdog.remove(child.pid)
    finally:
        watchdog.close()


def _wait_ready(child: Child, url: str) -> None:
    def check() -> None:
        assert child.poll() is None, f"{child.describe_exit()}\n{child.describe_log()}"

    deadline = time.monotonic() + READY_TIMEOUT_S
    while answer := ask_ready(f"{url}/health", check, deadline):
        check()
        assert time.monotonic() < deadline, f"{answer}\n{child.describe_log()}"
        time.sleep(0.2)
