"""What the Hub says of Spaces. huggingface_hub is loaded by the first question, which no other mode asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from trl_envs.errors import PreflightError, StartupError
from trl_envs.servers.patience import NoAnswerError, answer_of

if TYPE_CHECKING:
    from huggingface_hub import HfApi

T = TypeVar("T")

# huggingface_hub itself would wait for ever.
ANSWER_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class SpaceRecord:
    """A Space as the Hub describes it.

    Args:
        name: owner/name.
        host: Base URL of its server; None before it has ever been built.
        private: Whether it answers only those who may read it.
        stage: What it does: RUNNING, SLEEPING, BUILDING, ...
        complaint: The Hub's message on what is wrong with it; empty if nothing is.
    """

    name: str
    host: str | None
    private: bool
    stage: str
    complaint: str


@dataclass(frozen=True)
class HubUser:
    """Whose token it is.

    Args:
        name: The account.
        organisations: Those it belongs to.
    """

    name: str
    organisations: tuple[str, ...]

    def owns(self, space: str) -> bool:
        """Whether a Space, owner/name, is this account's or one of its organisations'."""
        return space.partition("/")[0] in (self.name, *self.organisations)


class RefusedByHubError(StartupError):
    """The Hub answered, and not with what was asked for.

    Args:
        status: Of the HTTP answer.
        reason: The Hub's own words.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(
            f"the Hub refuses: {reason} (HTTP {status})", "try again later, or see https://status.huggingface.co"
        )
        self.status = status
        self.reason = reason


class Hub:
    """Questions to the Hub, each with a time limit, its errors translated.

    Args:
        token: A Hub token; None takes the one that `hf auth login` left, if any.
        check: Called while an answer is awaited; raises to end the wait.
        endpoint: The Hub's address; None takes HF_ENDPOINT, or the Hub's own.
    """

    def __init__(
        self, token: str | None, check: Callable[[], None] = lambda: None, endpoint: str | None = None
    ) -> None:
        self._token = token
        self._endpoint = endpoint
        self.check = check

    def space(self, name: str) -> SpaceRecord:
        """The Hub's record of a Space.

        Raises:
            RefusedByHubError: There is none of that name that the token may see.
            StartupError: The Hub can't be reached.
        """
        info = self.ask(lambda api: api.space_info(name))
        runtime: Mapping[str, Any] = info.runtime.raw if info.runtime else {}
        return SpaceRecord(
            name=name,
            host=(info.host or "").rstrip("/") or None,
            private=bool(info.private),
            stage=str(runtime.get("stage") or "RUNNING"),
            complaint=str(runtime.get("errorMessage") or "").strip(),
        )

    def declared_sessions(self, name: str) -> int | None:
        """MAX_CONCURRENT_ENVS among a Space's variables; None if they can't be read or don't say."""
        try:
            variables = self.ask(lambda api: api.get_space_variables(name))
        except RefusedByHubError:
            # Often only the owner may read them. The probe then finds out.
            return None
        value = variables["MAX_CONCURRENT_ENVS"].value if "MAX_CONCURRENT_ENVS" in variables else ""
        return int(value) if value.isdecimal() else None

    def has_token(self) -> bool:
        """Whether there is a token to ask with."""
        from huggingface_hub import get_token

        return bool(self._token or get_token())

    def require_token(self, what: str = "copying a Space") -> None:
        """Does nothing with a token.

        Args:
            what: For which one is needed that may write.

        Raises:
            PreflightError: There is none.
        """
        if not self.has_token():
            raise PreflightError(
                f"{what} needs a token that may write, and there is none",
                "make one at https://huggingface.co/settings/tokens, then: export HF_TOKEN=..., or: hf auth login",
            )

    def user(self) -> HubUser | None:
        """Whose token it is; None without one, or if the Hub doesn't say."""
        if not self.has_token():
            return None
        try:
            answer = self.ask(lambda api: api.whoami())
        except RefusedByHubError:
            return None
        organisations = tuple(str(entry.get("name")) for entry in answer.get("orgs") or ())
        return HubUser(str(answer.get("name")), organisations)

    def exists(self, name: str) -> bool:
        """Whether there is a Space of that name that the token may see."""
        try:
            self.space(name)
        except RefusedByHubError as error:
            if error.status in (401, 403, 404):
                return False
            raise
        return True

    def duplicate(
        self, source: str, target: str, variables: Mapping[str, str], *, private: bool | None, hardware: str | None
    ) -> str:
        """Copies a Space on the Hub, with one request; returns the copy's page.

        Args:
            source: owner/name of the Space.
            target: owner/name of the copy.
            variables: Set on the copy.
            private: Whether the copy is private; None takes after the source.
            hardware: In the Hub's words; None for its free one.

        Raises:
            RefusedByHubError: The Hub won't.
            StartupError: The Hub can't be reached.
        """
        pairs = [{"key": key, "value": value} for key, value in variables.items()]
        url = self.ask(
            lambda api: api.duplicate_repo(
                source,
                target,
                repo_type="space",
                private=private,
                space_hardware=hardware,  # type: ignore[arg-type]
                space_variables=pairs,
            )
        )
        return str(url)

    def ask(self, call: Callable[[HfApi], T]) -> T:
        """What a question is answered.

        Args:
            call: Asks it.

        Raises:
            RefusedByHubError: The Hub answers with an error.
            StartupError: It can't be reached, or doesn't answer in time.
        """
        with self._translated():
            return answer_of(lambda: call(self._api()), ANSWER_TIMEOUT_S, self.check)

    def stream(self, call: Callable[[HfApi], Iterable[T]]) -> Iterator[T]:
        """What the Hub sends for as long as it does; errors as of `ask`, but without a time limit."""
        with self._translated():
            yield from call(self._api())

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Errors of huggingface_hub and of its HTTP library as ours."""
        try:
            yield
        except NoAnswerError:
            raise self._unreachable(f"no answer within {ANSWER_TIMEOUT_S:g} s") from None
        except Exception as error:
            from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

            if isinstance(error, OfflineModeIsEnabled):
                raise self._unreachable("HF_HUB_OFFLINE is set") from error
            if isinstance(error, HfHubHTTPError):
                reason = error.server_message or str(error.response.reason_phrase)
                raise RefusedByHubError(error.response.status_code, reason) from error
            # The HTTP library is another one in each major release of huggingface_hub.
            if isinstance(error, OSError) or type(error).__module__.partition(".")[0] in ("httpx", "httpx2"):
                raise self._unreachable(str(error) or type(error).__name__) from error
            raise

    def _api(self) -> HfApi:
        from huggingface_hub import HfApi

        return HfApi(endpoint=self._endpoint, token=self._token)

    def _unreachable(self, reason: str) -> StartupError:
        from huggingface_hub import constants

        return StartupError(
            f"the Hub can't be reached at {self._endpoint or constants.ENDPOINT}: {reason}",
            "Spaces and Jobs need it; the embedded server (server=local) and envs.NAME.url=http://HOST:PORT don't",
        )
