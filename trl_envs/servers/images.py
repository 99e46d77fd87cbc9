"""Container images that a run needs and this machine doesn't have yet."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

from trl_envs.errors import StartupError
from trl_envs.plan.launch_plan import LaunchPlan
from trl_envs.plan.spec import ProcessSpec
from trl_envs.runtime.supervisor import Supervisor

ANSWER_TIMEOUT_S = 20.0


def pull_missing(plan: LaunchPlan, supervisor: Supervisor, tell: Callable[[str, str], None]) -> None:
    """Pulls the plan's images before any server starts: it may take minutes, which no server's time limit allows for.

    Args:
        plan: The launch plan.
        supervisor: Runs `docker pull`.
        tell: Told of an environment's name and of what is being done for it.

    Raises:
        StartupError: An image can't be had.
        Interrupted: A signal came meanwhile.
    """
    for name, env in plan.environments.items():
        if env.image is None or _is_here(env.image):
            continue
        tell(name, f"pulling {env.image}, which isn't on this machine yet")
        pull = supervisor.start(ProcessSpec(f"pull-{name}", ("docker", "pull", env.image)))
        if supervisor.watch(pull) != 0:
            raise StartupError(
                f"envs.{name}.image={env.image} can't be pulled: {pull.describe_exit()}\n{pull.describe_log()}",
                f"correct envs.{name}.image, or log in to its registry (docker login); try docker pull {env.image}",
            )


def _is_here(image: str) -> bool:
    command = ["docker", "image", "inspect", "--format", "{{.Id}}", image]
    try:
        return subprocess.run(command, capture_output=True, timeout=ANSWER_TIMEOUT_S).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        # Whatever is wrong with the engine, pulling says so.
        return False
