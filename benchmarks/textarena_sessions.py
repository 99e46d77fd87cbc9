"""How long many Wordle sessions take to begin: opened, reset and one guess made, all at once.

    python benchmarks/textarena_sessions.py [--sessions 64] [--peer-sessions 4] [--json]

Ours is the embedded server in a process of its own, played over its WebSockets. The peer is textarena as OpenEnv's
official server uses it, in this process and without any network between: a Wordle is built for each session, with its
dictionaries. Its sessions are alike, so a few are timed, in turn with ours, and multiplied. Both are given the same
words. The ratio is ours over the peer's: below 1 is quicker.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from trl_envs.envs.textarena.words import nltk_without_network
from trl_envs.envs.wordle import WordleEnv
from trl_envs.rollout.session import SessionOpener

START_TIMEOUT_S = 120.0
CLIENT_THREADS = 16


@contextmanager
def server(sessions: int) -> Iterator[str]:
    """The embedded server with room for so many sessions; its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "uvicorn", "trl_envs.envs.wordle.server:app", "--port", str(port)]
    variables = {**os.environ, "MAX_CONCURRENT_ENVS": str(sessions)}
    process = subprocess.Popen([*command, "--log-level", "error"], env=variables)
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until_ready(process, url)
        yield url
    finally:
        process.terminate()
        process.wait(timeout=30)


def wait_until_ready(process: subprocess.Popen[bytes], url: str) -> None:
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            with urllib.request.urlopen(url + "/health", timeout=5):
                return
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline_s:
                raise
            time.sleep(0.1)


def ours(url: str, sessions: int) -> float:
    """Seconds until each session has its first feedback."""
    open_session = SessionOpener([url])
    players = [WordleEnv(open_session) for _ in range(sessions)]

    def begin(numbered: tuple[int, WordleEnv]) -> None:
        seed, player = numbered
        player.reset(seed=seed)
        player.guess(guess="crane")

    started_s = time.perf_counter()
    with ThreadPoolExecutor(CLIENT_THREADS) as pool:
        list(pool.map(begin, enumerate(players)))
    seconds = time.perf_counter() - started_s
    for player in players:
        player._close()
    return seconds


def peer(sessions: int) -> float:
    """Seconds of as many sessions of the official server's game, without its network."""
    with nltk_without_network():
        import textarena
        import textarena.envs.Wordle.env

        started_s = time.perf_counter()
        for _ in range(sessions):
            game = textarena.make("Wordle-v0")
            # Once when it is built and once for the client's reset (envs/textarena_env/server/environment.py).
            game.reset(num_players=1)
            game.reset(num_players=1)
            game.step("[crane]")
            game.get_observation()
        return time.perf_counter() - started_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=64)
    parser.add_argument("--peer-sessions", type=int, default=4, help="how many of the peer's are timed")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    # Above the number of players: a slot is free a moment after its session has been closed.
    with server(2 * options.sessions) as url:
        first_s = ours(url, options.sessions)
        peer_s = peer(options.peer_sessions) * options.sessions / options.peer_sessions
        ours_s = sorted([first_s, ours(url, options.sessions), ours(url, options.sessions)])[1]
    row = {
        "sessions": options.sessions,
        "ours_s": round(ours_s, 2),
        "ours_first_s": round(first_s, 2),
        "peer_s": round(peer_s, 2),
        "ratio": round(ours_s / peer_s, 4),
    }
    if options.json:
        print(json.dumps(row, indent=2))
        return
    print(
        f"{options.sessions} sessions opened, reset and one guess made: ours {row['ours_s']} s "
        f"(the first time {row['ours_first_s']} s), peer {row['peer_s']} s, ratio {row['ratio']}"
    )


if __name__ == "__main__":
    main()
