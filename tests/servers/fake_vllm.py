"""A stand-in for the program `vllm`: takes `serve MODEL --host H --port P ...`, and behaves as FAKE_VLLM says.

Notes its process id in FAKE_VLLM_PIDS/server, and a grandchild's in FAKE_VLLM_PIDS/grandchild. Behaviours: good, never
(never listens), 503, other (another kind of server), old (no development endpoints), model (serves another one),
engineless (no weight transfer), world (another number of GPUs), stubborn (ignores TERM), grandchild (leaves one behind
that ignores TERM, and dies). Once the file FAKE_VLLM_PIDS/now is there: dies, stalls (answers no more), stuck (answers,
and generates no more).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HOW = os.environ["FAKE_VLLM"]
PIDS = Path(os.environ["FAKE_VLLM_PIDS"])
IGNORE_TERM = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
MODEL = "another/model" if HOW == "model" else sys.argv[2]
PAGES: dict[str, object] = {
    "/health": "",
    "/v1/models": {"data": [{"id": MODEL}]},
    "/server_info": {
        "vllm_config": {"weight_transfer_config": None if HOW == "engineless" else {"backend": "nccl"}},
    },
    "/get_world_size": {"world_size": 5 if HOW == "world" else 1},
}
if HOW == "other":
    PAGES = {"/health": ""}
if HOW == "old":
    del PAGES["/get_world_size"], PAGES["/server_info"]


tokens = 100


class Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if HOW == "stalls" and (PIDS / "now").exists():
            time.sleep(60)
        if HOW == "stuck" and self.path == "/metrics":
            self.send_response(200)
            self.end_headers()
            self.wfile.write(figures().encode())
            return
        page = PAGES.get(self.path.partition("?")[0])
        self.send_response(503 if HOW == "503" else 404 if page is None else 200)
        self.end_headers()
        self.wfile.write(json.dumps(page).encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


def figures() -> str:
    """vLLM's page of figures, of two engines: 0 generates for ever, 1 until it is told to stop."""
    global tokens
    tokens += 1
    written = {"0": tokens, "1": 7 if (PIDS / "now").exists() else tokens}
    lines = ["# HELP vllm:generation_tokens_total Number of generation tokens processed."]
    for engine, count in written.items():
        labels = f'{{engine="{engine}",model_name="{MODEL}"}}'
        lines += [f"vllm:num_requests_running{labels} 3.0", f"vllm:num_requests_waiting{labels} 1.0"]
        lines += [f"vllm:generation_tokens_total{labels} {count}.0", f"vllm:prompt_tokens_total{labels} 40.0"]
    return "\n".join(lines) + "\n"


def die_in_time() -> None:
    while not (PIDS / "now").exists():
        time.sleep(0.02)
    if HOW == "grandchild":
        child = subprocess.Popen([sys.executable, "-I", "-S", "-c", IGNORE_TERM], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        (PIDS / "grandchild").write_text(str(child.pid))
    print("the engine is dead", flush=True)
    os._exit(7)


def main() -> None:
    assert sys.argv[1] == "serve"
    PIDS.mkdir(exist_ok=True)
    (PIDS / "server").write_text(str(os.getpid()))
    if HOW == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print(f"loading {MODEL}", flush=True)
    if HOW == "never":
        time.sleep(60)
    if HOW in ("dies", "grandchild"):
        threading.Thread(target=die_in_time, daemon=True).start()
    host, port = (sys.argv[sys.argv.index(name) + 1] for name in ("--host", "--port"))
    ThreadingHTTPServer((host, int(port)), Answers).serve_forever()


if __name__ == "__main__":
    main()
