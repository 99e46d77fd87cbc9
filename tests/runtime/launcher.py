"""A small launcher that the tests signal and kill: `python launcher.py WHERE PORT GRACE_S FOLDER`.

Starts a server with a stubborn family, then hangs WHERE it is told to: `wait` (never ready) or `watch`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.runtime.programs import SLEEP, family, python, server
from trl_envs.errors import TrlEnvError
from trl_envs.runtime.supervisor import Supervisor


def main() -> int:
    where, port, grace_s, folder = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), Path(sys.argv[4])
    try:
        with Supervisor(folder / "logs", stop_grace_s=grace_s) as supervisor:
            serving = supervisor.start(server("server", port, status=503 if where == "wait" else 200))
            main_child = supervisor.start(python("main", family(folder, then=SLEEP)))
            supervisor.start(python("far", family(folder / "far", own_session=True, then=SLEEP)))
            (folder / "server").write_text(str(serving.pid))
            assert supervisor._watchdog is not None
            (folder / "guard").write_text(str(supervisor._watchdog.pid))
            print("up", flush=True)
            supervisor.wait_ready(serving)
            return supervisor.watch(main_child)
    except TrlEnvError as error:
        print(type(error).__name__, flush=True)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
