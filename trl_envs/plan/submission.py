"""A run as a request to Hugging Face Jobs: one command that brings its own config, and the names of its secrets.

What the job needs is in the request: the config as it was composed here, and the packages to install. Modules and
folders of this machine aren't, so that a run which needs any is refused; for which it is looked whether they are there.
Nothing else is touched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from trl_envs.config.compose import Composed
from trl_envs.config.grpo_fields import grpo_value
from trl_envs.config.model_location import SHIPPED
from trl_envs.config.schema import EnvConfig, JobConfig, LaunchMode, ServerMode, TrainConfig
from trl_envs.config.store import to_yaml
from trl_envs.plan.batch import batch_problems
from trl_envs.plan.problem import Problem, refuse
from trl_envs.plan.servers import is_space_name, mode_of, url_list

# huggingface_hub's own choice for scripts (DEFAULT_UV_IMAGE): Python 3.12 and uv.
IMAGE = "ghcr.io/astral-sh/uv:python3.12-bookworm"
# The result is pushed with it, and private models and Spaces are read with it.
TOKEN = "HF_TOKEN"
_TIMEOUT = re.compile(r"\d+(\.\d+)?[smhd]?")
_VARIABLE = re.compile(r"[A-Za-z_]\w*")
_SCRIPT = """\
import pathlib, subprocess, sys
CONFIG = {config}
pathlib.Path("config.yaml").write_text(CONFIG, encoding="utf-8")
sys.exit(subprocess.call([sys.executable, "-m", "trl_envs", "train", "--config", "config.yaml"]))
"""


@dataclass(frozen=True)
class JobRequest:
    """What is asked of Hugging Face Jobs.

    Args:
        command: Program and arguments, run in IMAGE.
        flavor: Hardware, in the service's words.
        timeout: Longest run: a number with s, m, h or d.
        secrets: Names of the environment variables whose values the service keeps secret.
        push_to: Model repository, owner/name, to which the trained model goes.
        namespace: Account that runs the job and pays for it; None for the token's own.
        name: A label by which the job is listed.
    """

    command: tuple[str, ...]
    flavor: str
    timeout: str
    secrets: tuple[str, ...]
    push_to: str
    namespace: str | None
    name: str

    def as_dict(self) -> dict[str, Any]:
        """JSON-able, and without the value of any secret."""
        return {
            "image": IMAGE,
            "command": list(self.command),
            "flavor": self.flavor,
            "timeout": self.timeout,
            "secrets": list(self.secrets),
            "push_to": self.push_to,
            "namespace": self.namespace,
            "name": self.name,
        }


def plan_job(
    composed: Composed,
    *,
    version: str,
    package: str | None = None,
    extra: Sequence[str] = (),
    secrets: Sequence[str] = (),
    push_to: str | None = None,
    namespace: str | None = None,
) -> JobRequest:
    """The request for a run.

    Args:
        composed: What was asked for, with job=hf_jobs, job.flavor and job.timeout.
        version: Of trl-env, to install the same there.
        package: What to install instead, as pip writes it: a URL, a name with a version.
        extra: Further packages.
        secrets: Names of environment variables besides HF_TOKEN.
        push_to: owner/name of the model repository for the result; None takes grpo.hub_model_id.
        namespace: Account that runs the job.

    Raises:
        PreflightError: Something is missing, or the job couldn't have it; all of it.
    """
    config = composed.config
    target = push_to or (config.grpo.get("hub_model_id") if grpo_value(config.grpo, "push_to_hub") else None)
    refuse([*_job_problems(config.job, target, secrets), *_machine_problems(composed), *batch_problems(config)])
    grpo = {**config.grpo, "push_to_hub": True, "hub_model_id": str(target)}
    text = to_yaml(replace(config, job=JobConfig(), grpo=grpo))
    packages = [package or _package(config, version), *extra]
    withs = [word for name in packages for word in ("--with", name)]
    script = _SCRIPT.format(config=f'r"""\n{text}"""' if '"""' not in text else repr(text))
    return JobRequest(
        command=("uv", "run", "--no-project", *withs, "python", "-c", script),
        flavor=str(config.job.flavor),
        timeout=str(config.job.timeout),
        # Private servers and Spaces are played on with the token that server.token_env names.
        secrets=tuple(dict.fromkeys([TOKEN, config.server.token_env, *secrets])),
        push_to=str(target),
        namespace=namespace,
        name=re.sub(r"[^A-Za-z0-9_.-]", "-", config.run_name or f"trl-env-{config.recipe}"),
    )


def _package(config: TrainConfig, version: str) -> str:
    on_gpu = not str(config.job.flavor).startswith("cpu") and config.launch.mode is not LaunchMode.single
    return f"trl-env{'[vllm]' if on_gpu else ''}=={version}"


def _job_problems(job: JobConfig, target: Any, secrets: Sequence[str]) -> Iterator[Problem]:
    if job.mode is None:
        yield Problem("job", "where should the run be submitted to?", "add job=hf_jobs")
    if not job.flavor:
        hint = "add job.flavor=a100-large (hf jobs hardware lists them with their prices)"
        yield Problem("job.flavor", "job.flavor isn't set: on which hardware should it run?", hint)
    if not job.timeout:
        message = "job.timeout isn't set: a job that hangs would be paid for until somebody notices"
        yield Problem("job.timeout", message, "add job.timeout=4h")
    elif not _TIMEOUT.fullmatch(job.timeout) or float(job.timeout.rstrip("smhd")) == 0:
        message = f"job.timeout={job.timeout} is no time"
        yield Problem("job.timeout", message, "write a number and s, m, h or d: job.timeout=4h")
    if not target:
        message = "the job's disk is gone when it ends, and nothing says where the trained model should go"
        hint = "add --push-to OWNER/NAME, or grpo.push_to_hub=true grpo.hub_model_id=OWNER/NAME"
        yield Problem("grpo.hub_model_id", message, hint)
    elif not is_space_name(str(target)):
        message = f"{target} is no name of a model repository, owner/name"
        yield Problem("grpo.hub_model_id", message, "write --push-to OWNER/NAME")
    for name in secrets:
        if not _VARIABLE.fullmatch(name):
            # Not repeated here: it may be the secret itself.
            message = "--secret takes the name of an environment variable, never a value"
            yield Problem("--secret", message, "export WANDB_API_KEY=... in the shell, then: --secret WANDB_API_KEY")


def _machine_problems(composed: Composed) -> Iterator[Problem]:
    """What the config names on this machine, and the job wouldn't have."""
    config, folders = composed.config, composed.import_folders
    for key, path in (("model.path", config.model.path), ("model.tokenizer", config.model.tokenizer)):
        if path and path not in SHIPPED and (Path(path).is_absolute() or Path(path).is_dir()):
            message = f"{key}={path} is a folder of this machine, which the job wouldn't have"
            yield Problem(key, message, "upload it (hf upload OWNER/NAME FOLDER), then: model=OWNER/NAME")
    for name, env in config.envs.items():
        for key, target in _targets(name, env):
            module = re.split(r"[.:]", target)[0]
            if module != "trl_envs" and PathFinder.find_spec(module, list(folders)) is not None:
                message = f"{key}={target} is a module of this machine, which the job wouldn't have"
                hint = "make it a package that pip can install, and name it: --with 'my-envs @ git+https://...'"
                yield Problem(key, message, hint)
        if env.url is None and mode_of(env, config) is ServerMode.docker:
            message = f"envs.{name}: there is no Docker inside a job"
            yield Problem(f"envs.{name}.server", message, "set server=local, or server=space")
        for url in url_list(env.url) if env.url is not None else ():
            if urlsplit(str(url)).hostname in ("127.0.0.1", "localhost", "0.0.0.0", "::1"):
                message = f"envs.{name}.url={url} is an address of this machine, which the job can't reach"
                yield Problem(f"envs.{name}.url", message, f"set envs.{name}.url=null server=local")


def _targets(name: str, env: EnvConfig) -> Iterator[tuple[str, str]]:
    yield f"envs.{name}.environment._target_", str(env.environment.get("_target_"))
    for term, node in env.rewards.items():
        yield f"envs.{name}.rewards.{term}._target_", str(node.get("_target_"))
    if env.app:
        yield f"envs.{name}.app", env.app
