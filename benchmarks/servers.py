"""What the embedded environment servers hold: sessions opened, resets and steps a second, and memory.

    python benchmarks/servers.py [--games catch wordle ...] [--sessions 1 16 64 256] [--openenv CHECKOUT] [--json]

All sessions of a server work at the same time, over its WebSockets. With a checkout of
https://github.com/meta-pytorch/OpenEnv the official server of each game is measured too, in the same run, for as many
sessions, from a virtual environment of its own (see `make test-conformance`); its Wordle loads dictionaries for each
session, so it gets --official-wordle of them. Ratios are embedded over official: above 1 is more of it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from trl_envs.config.compose import compose
from trl_envs.launch import machine_facts
from trl_envs.plan.build import build_servers
from trl_envs.servers.health import why_silent

ROOT = Path(__file__).parent.parent
START_TIMEOUT_S = 180.0
ROUNDS = 5
# Moves that every game takes in its first steps, whatever the seed.
MOVES: dict[str, list[dict[str, Any]]] = {
    "echo": [{"message": "Hello World!"}] * 8,
    "catch": [{"action_id": 1, "game_name": "catch"}] * 8,
    "wordle": [{"message": f"[{word}]"} for word in ("crane", "pious", "lymph", "debut", "fghij")],
    "sudoku": [{"message": "[1 1 1]"}],
}
MCP_ECHO = {"type": "call_tool", "tool_name": "echo_message", "arguments": {"message": "Hello World!"}}


@contextmanager
def embedded(game: str, sessions: int) -> Iterator[tuple[str, int]]:
    """The embedded server of a recipe as a run with so many sessions starts it: its URL and process id."""
    spec = build_servers(compose([f"recipe={game}"]).config, machine_facts(), sessions, [])[game]
    process = subprocess.Popen(spec.argv, env={**os.environ, **spec.variables})
    url = f"http://{spec.host}:{spec.port}"
    try:
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while why_silent(url):
            if process.poll() is not None or time.monotonic() > deadline_s:
                raise SystemExit(f"the embedded server of {game} didn't start")
            time.sleep(0.1)
        yield url, process.pid
    finally:
        process.terminate()
        process.wait(timeout=30)


@contextmanager
def official(game: str, sessions: int, checkout: str) -> Iterator[tuple[str, int]]:
    """OpenEnv's own server of the same game."""
    sys.path.insert(0, str(ROOT))
    from tests.conformance import official as servers

    servers.OFFICIAL[game] = replace(servers.OFFICIAL[game], sessions=sessions)
    with tempfile.TemporaryDirectory() as logs, servers.serving_official(game, Path(checkout), Path(logs)) as url:
        port = url.rpartition(":")[2]
        lines = [path for path in Path("/proc").glob("[0-9]*/cmdline") if f"--port\0{port}" in _text(path)]
        yield url, int(lines[0].parent.name)


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # ended meanwhile
        return ""


async def _ask(socket: ClientConnection, kind: str, data: dict[str, Any]) -> dict[str, Any]:
    await socket.send(json.dumps({"type": kind, "data": data}))
    answer: dict[str, Any] = json.loads(await socket.recv())
    if answer.get("type") == "error":
        raise SystemExit(f"the server refuses {kind} {data}: {answer}")
    return answer["data"]


async def _measure(url: str, moves: list[dict[str, Any]], sessions: int) -> dict[str, float]:
    address = f"ws{url.removeprefix('http')}/ws"
    started_s = time.perf_counter()
    sockets = await asyncio.gather(
        *(connect(address, open_timeout=120, ping_interval=None, max_size=None) for _ in range(sessions))
    )
    await asyncio.gather(*(_ask(socket, "reset", {"seed": seed}) for seed, socket in enumerate(sockets)))
    opened_s, resets_s, steps_s = time.perf_counter() - started_s, 0.0, 0.0

    async def play(socket: ClientConnection) -> int:
        made = 0
        for move in moves:
            made += 1
            if (await _ask(socket, "step", move)).get("done"):
                break
        return made

    made = 0
    for turn in range(ROUNDS):
        started_s = time.perf_counter()
        made += sum(await asyncio.gather(*(play(socket) for socket in sockets)))
        steps_s += time.perf_counter() - started_s
        started_s = time.perf_counter()
        await asyncio.gather(*(_ask(one, "reset", {"seed": 1000 * turn + i}) for i, one in enumerate(sockets)))
        resets_s += time.perf_counter() - started_s
    await asyncio.gather(*(socket.close() for socket in sockets))
    return {
        "opened_per_s": sessions / opened_s,
        "resets_per_s": ROUNDS * sessions / resets_s,
        "steps_per_s": made / steps_s,
    }


def measure(url: str, pid: int, game: str, sessions: int, *, mcp: bool) -> dict[str, float]:
    """Rates of one server, once it has been warmed up by a session, and the memory it has come to, in MiB."""
    moves = [MCP_ECHO] * 8 if mcp else MOVES[game]
    asyncio.run(_measure(url, moves, 1))
    found = asyncio.run(_measure(url, moves, sessions))
    found["memory_mib"] = _resident_mib(pid)
    return found


def _resident_mib(pid: int) -> float:
    """Of a server's process and those that it has started."""
    own = Path(f"/proc/{pid}")
    status = (own / "status").read_text().splitlines()
    mib = next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))
    children = (own / "task" / str(pid) / "children").read_text().split()
    return mib + sum(_resident_mib(int(child)) for child in children)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", nargs="+", choices=list(MOVES), default=list(MOVES))
    parser.add_argument("--sessions", nargs="+", type=int, default=[1, 16, 64, 256])
    parser.add_argument("--openenv", metavar="CHECKOUT", help="measure the official servers too")
    parser.add_argument("--official-wordle", type=int, default=4, help="sessions of the official Wordle at most")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    # Each session is a socket of this process, and the shells' usual limit is 1024 at that.
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    rows: list[dict[str, Any]] = []
    for game in options.games:
        for sessions in options.sessions:
            with embedded(game, sessions) as (url, pid):
                rows.append({"game": game, "server": "embedded", "sessions": sessions})
                rows[-1] |= measure(url, pid, game, sessions, mcp=False)
            if options.openenv:
                theirs = min(sessions, options.official_wordle) if game == "wordle" else sessions
                with official(game, theirs + 2, options.openenv) as (url, pid):
                    found = measure(url, pid, game, theirs, mcp=game == "echo")
                rates = [key for key in found if key.endswith("_per_s")]
                rows.append({"game": game, "server": "official", "sessions": theirs, **found})
                rows[-1]["ratio"] = {key: rows[-2][key] / found[key] for key in rates}
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    print(f"{'':24}{'sessions':>9}{'opened/s':>10}{'resets/s':>10}{'steps/s':>10}{'MiB':>7}")
    for row in rows:
        rates = "".join(f"{row[key]:10.1f}" for key in ("opened_per_s", "resets_per_s", "steps_per_s"))
        print(f"{row['game']:8}{row['server']:16}{row['sessions']:9}{rates}{row['memory_mib']:7.0f}")
        if "ratio" in row:
            ratios = "".join(f"{row['ratio'][key]:10.2f}" for key in ("opened_per_s", "resets_per_s", "steps_per_s"))
            print(f"{'':8}{'ratio':16}{'':9}{ratios}")


if __name__ == "__main__":
    main()
