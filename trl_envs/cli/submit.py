"""`trl-env submit`: a run on Hugging Face Jobs."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from contextlib import suppress
from queue import Empty, Queue
from threading import Thread
from typing import TYPE_CHECKING, Annotated

import typer

from trl_envs.cli.options import AsJson, Overrides, RecipeDirs, compose_typed

if TYPE_CHECKING:
    from trl_envs.plan.submission import JobRequest
    from trl_envs.servers.jobs import Jobs

# How soon a signal is heeded while no line comes.
TICK_S = 0.1
FAILED = ("ERROR", "CANCELED", "DELETED")


PushTo = Annotated[
    str | None, typer.Option("--push-to", metavar="OWNER/NAME", help="Where the trained model goes on the Hub.")
]
Secrets = Annotated[
    list[str] | None,
    typer.Option("--secret", metavar="NAME", help="A variable of this shell to give the job; HF_TOKEN always is."),
]
Package = Annotated[
    str | None, typer.Option("--package", metavar="PIP", help="Instead of this version of trl-env, such as a URL.")
]
Extra = Annotated[list[str] | None, typer.Option("--with", metavar="PIP", help="A further package; may be repeated.")]
Namespace = Annotated[
    str | None, typer.Option("--namespace", metavar="ACCOUNT", help="An organisation that runs it and pays for it.")
]
Detach = Annotated[bool, typer.Option("--detach", help="Don't follow the logs.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the request, and send nothing.")]
Logs = Annotated[str | None, typer.Option("--logs", metavar="ID", help="Follow the logs of a job.")]
Cancel = Annotated[str | None, typer.Option("--cancel", metavar="ID", help="End a job.")]


def submit(
    context: typer.Context,
    overrides: Overrides = None,
    push_to: PushTo = None,
    secret: Secrets = None,
    package: Package = None,
    extra: Extra = None,
    namespace: Namespace = None,
    detach: Detach = False,
    dry_run: DryRun = False,
    logs: Logs = None,
    cancel: Cancel = None,
    recipe_dir: RecipeDirs = None,
    as_json: AsJson = False,
) -> None:
    """Run a recipe on Hugging Face Jobs: send it with its config, and follow what it prints.

    \b
    trl-env submit recipe=wordle job=hf_jobs job.flavor=a100-large job.timeout=4h --push-to me/wordle-agent --dry-run
    trl-env submit recipe=wordle job=hf_jobs job.flavor=a100-large job.timeout=4h --push-to me/wordle-agent
    trl-env submit recipe=catch job=hf_jobs job.flavor=l4x1 job.timeout=2h --push-to me/c --secret WANDB_API_KEY \\
        'logging.report_to=[wandb]' --with wandb
    trl-env submit --logs me/0123456789abcdef
    trl-env submit --cancel me/0123456789abcdef

    Needs a token that may run jobs and write the repository: HF_TOKEN, or `hf auth login`. Secrets are named, never
    written out: their values go into the request's own field for secrets. Ctrl-C stops following, not the job.

    Exit codes: 0 the job trained (or was sent, or cancelled), 1 it failed, 2 refused, 3 the Hub can't be reached.
    """
    from trl_envs.servers.hub import Hub
    from trl_envs.servers.jobs import Jobs

    if cancel or logs:
        _attend(Jobs(Hub(None)), cancel, logs)
        return
    request = _request(context, overrides, recipe_dir, push_to, secret, package, extra, namespace)
    if dry_run:
        typer.echo(json.dumps(request.as_dict(), indent=2) if as_json else _described(request))
        return
    values = _values(request)
    jobs = Jobs(Hub(values["HF_TOKEN"]))
    record = jobs.submit(request, values)
    if as_json:
        typer.echo(json.dumps({"job": record.job, "url": record.url, **request.as_dict()}, indent=2))
    typer.echo(f"job      {record.job}: {record.url}", err=True)
    if not detach:
        _follow(jobs, record.job)


def _attend(jobs: Jobs, cancel: str | None, logs: str | None) -> None:
    """Ends a job, or follows it."""
    if cancel:
        jobs.cancel(cancel)
        typer.echo(f"cancelled {cancel}")
    elif logs:
        _follow(jobs, logs)


def _request(
    context: typer.Context,
    overrides: Overrides,
    recipe_dir: RecipeDirs,
    push_to: str | None,
    secret: list[str] | None,
    package: str | None,
    extra: list[str] | None,
    namespace: str | None,
) -> JobRequest:
    """The request, once nothing in the config speaks against it."""
    from trl_envs import __version__
    from trl_envs.plan.submission import plan_job
    from trl_envs.preflight.findings import Report, errors, raise_errors
    from trl_envs.preflight.grpo_rules import grpo_problems

    composed = compose_typed(overrides, context, recipe_dir)
    request = plan_job(
        composed,
        version=__version__,
        package=package,
        extra=extra or (),
        secrets=secret or (),
        push_to=push_to,
        namespace=namespace,
    )
    device = "cpu" if request.flavor.startswith("cpu") else "cuda"
    raise_errors(Report(errors(grpo_problems(composed.config.grpo, device))))
    return request


def _values(request: JobRequest) -> dict[str, str]:
    """The secrets' values by name.

    Raises:
        PreflightError: One isn't set, or stands in the config too, where it would be read by others.
    """
    from huggingface_hub import get_token

    from trl_envs.errors import PreflightError

    values = {name: os.environ.get(name, "") for name in request.secrets}
    values["HF_TOKEN"] = get_token() or ""
    for name, value in values.items():
        if not value and name == "HF_TOKEN":
            raise PreflightError(
                "submitting a job needs a token that may run jobs and write, and there is none",
                "make one at https://huggingface.co/settings/tokens, then: export HF_TOKEN=..., or: hf auth login",
            )
        if not value:
            raise PreflightError(f"--secret {name}: this shell has no such variable", f"export {name}=... first")
        if any(value in word for word in request.command):
            raise PreflightError(
                f"the value of {name} stands in the config, which everybody who may see the job can read",
                "take it out of the recipe or the overrides; the job gets it as an environment variable",
            )
    return values


def _described(request: JobRequest) -> str:
    from trl_envs.plan.submission import IMAGE

    account = request.namespace or "the token's own account"
    return "\n".join(
        [
            f"# Hugging Face Jobs: {request.flavor}, {request.timeout} at the most, paid by {account}",
            f"# secrets, by name: {', '.join(request.secrets)}; the model goes to {request.push_to}",
            f"# image: {IMAGE}",
            shlex.join(request.command),
        ]
    )


def _follow(jobs: Jobs, job: str) -> None:
    """Prints a job's log until it ends.

    Raises:
        TrainingFailed: It didn't end well.
        Interrupted: Ctrl-C or a signal; the job goes on.
    """
    from trl_envs.errors import Interrupted, TrainingFailed

    try:
        for line in _arriving(jobs.logs(job)):
            typer.echo(line)
    except Interrupted:
        said = f"no longer following {job}, which goes on: trl-env submit --logs {job}, or --cancel {job}"
        typer.echo(said, err=True)
        raise
    record = jobs.find(job)
    if record.stage in FAILED:
        raise TrainingFailed(
            f"the job {job} ended as {record.stage}{': ' + record.message if record.message else ''}", record.url
        )
    typer.echo(f"job      {job}: {record.stage}", err=True)


def _arriving(lines: Iterator[str]) -> Iterator[str]:
    """Lines as they come, read by a thread, so that a signal is heeded while none comes.

    Raises:
        Interrupted: A signal came.
    """
    from trl_envs.errors import Interrupted
    from trl_envs.runtime.signals import SignalRecorder

    read: Queue[str | BaseException | None] = Queue()

    def run() -> None:
        try:
            for line in lines:
                read.put(line)
            read.put(None)
        except BaseException as error:
            read.put(error)

    signals = SignalRecorder()
    signals.install()
    try:
        Thread(target=run, name="trl-env-job-logs", daemon=True).start()
        while True:
            if signals.received:
                raise Interrupted(signals.received[0])
            with suppress(Empty):
                item = read.get(timeout=TICK_S)
                if item is None:
                    return
                if isinstance(item, BaseException):
                    raise item
                yield item
    finally:
        signals.restore()
