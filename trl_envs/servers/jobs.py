"""Hugging Face Jobs: sending a request, following its logs, cancelling it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trl_envs.errors import PreflightError, TrlEnvError
from trl_envs.plan.submission import IMAGE, JobRequest
from trl_envs.servers.hub import Hub, RefusedByHubError


@dataclass(frozen=True)
class JobRecord:
    """A job as the service describes it.

    Args:
        job: account/id, by which it is followed and cancelled.
        url: Its page.
        stage: SCHEDULING, RUNNING, COMPLETED, ERROR, CANCELED or DELETED.
        message: The service's words on it; empty if it has none.
    """

    job: str
    url: str
    stage: str
    message: str


class Jobs:
    """The jobs of an account.

    Args:
        hub: Asks the Hub.
    """

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def submit(self, request: JobRequest, secrets: Mapping[str, str]) -> JobRecord:
        """Starts a job, with one request.

        Args:
            request: What to run.
            secrets: Values of its secrets by name; sent in the request's field for secrets, and nowhere else.

        Raises:
            PreflightError: No token, or the service won't.
            StartupError: The Hub can't be reached.
        """
        self._hub.require_token("submitting a job")
        try:
            info = self._hub.ask(
                lambda api: api.run_job(
                    image=IMAGE,
                    command=list(request.command),
                    secrets=dict(secrets),
                    flavor=request.flavor,
                    timeout=request.timeout,
                    name=request.name,
                    namespace=request.namespace,
                )
            )
        except RefusedByHubError as error:
            raise _refusal("the job wasn't started", error) from error
        return _record(info)

    def find(self, job: str) -> JobRecord:
        """How a job stands.

        Args:
            job: account/id, or the id alone of a job of the token's own account.

        Raises:
            PreflightError: There is no such job that the token may see.
            StartupError: The Hub can't be reached.
        """
        namespace, identifier = _split(job)
        try:
            return _record(self._hub.ask(lambda api: api.inspect_job(job_id=identifier, namespace=namespace)))
        except RefusedByHubError as error:
            raise _refusal(f"the job {job} can't be looked at", error) from error

    def logs(self, job: str) -> Iterator[str]:
        """The lines of a job's log, from its beginning to its end; waits for those to come."""
        namespace, identifier = _split(job)
        try:
            yield from self._hub.stream(
                lambda api: api.fetch_job_logs(job_id=identifier, namespace=namespace, follow=True)
            )
        except RefusedByHubError as error:
            raise _refusal(f"the log of {job} can't be read", error) from error

    def cancel(self, job: str) -> None:
        """Ends a job.

        Raises:
            PreflightError: There is no such job, or the token may not.
            StartupError: The Hub can't be reached.
        """
        namespace, identifier = _split(job)
        try:
            self._hub.ask(lambda api: api.cancel_job(job_id=identifier, namespace=namespace))
        except RefusedByHubError as error:
            raise _refusal(f"the job {job} can't be cancelled", error) from error


def _split(job: str) -> tuple[str | None, str]:
    namespace, _, identifier = job.rpartition("/")
    return namespace or None, identifier


def _record(info: Any) -> JobRecord:
    return JobRecord(
        job=f"{info.owner.name}/{info.id}",
        url=info.url,
        stage=str(getattr(info.status.stage, "value", info.status.stage)),
        message=info.status.message or "",
    )


def _refusal(what: str, error: RefusedByHubError) -> TrlEnvError:
    said = f"{what}: {error.reason} (HTTP {error.status})"
    if error.status in (401, 403):
        return PreflightError(said, "the token must be one that may run jobs: https://huggingface.co/settings/tokens")
    if error.status == 402:
        return PreflightError(said, "jobs are paid for in advance: https://huggingface.co/settings/billing")
    if error.status == 404:
        return PreflightError(said, "hf jobs ps -a lists the jobs of the account")
    return PreflightError(said, "see what the Hub says; job.flavor, job.timeout and --namespace are what it was asked")
