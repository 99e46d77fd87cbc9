"""A small launcher that the tests signal and kill: `python docker_launcher.py IMAGE TIMEOUT_S FOLDER`.

Plans catch in a container, starts it as a run does, and then waits for a trainer that sleeps.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.runtime.programs import SLEEP, python
from trl_envs.config.compose import compose
from trl_envs.errors import TrlEnvError
from trl_envs.launch import machine_facts
from trl_envs.plan.build import build_plan
from trl_envs.runtime.supervisor import Supervisor
from trl_envs.servers.images import pull_missing
from trl_envs.servers.start import start_servers


def main() -> int:
    image, timeout_s, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    try:
        config = compose(
            [
                "recipe=catch",
                "preset=smoke",
                "server=docker",
                f"envs.catch.image={image}",
                f"server.ready_timeout_s={timeout_s}",
            ]
        ).config
        plan = build_plan(config, machine_facts(), folder, [])
        with Supervisor(folder / "logs") as supervisor:
            pull_missing(plan, supervisor, lambda name, what: print(f"{name}: {what}", flush=True))
            start_servers(plan, supervisor, lambda name, urls, seconds: print(f"ready {urls[0]}", flush=True))
            return supervisor.watch(supervisor.start(python("main", SLEEP)))
    except TrlEnvError as error:
        print(f"{type(error).__name__}: {error}", flush=True)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
