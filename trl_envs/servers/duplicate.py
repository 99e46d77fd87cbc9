"""Copying a Space on the Hub: one request, and the errors that it may end in."""

from __future__ import annotations

from trl_envs.config.schema import ServerConfig
from trl_envs.config.token import token_for
from trl_envs.errors import PreflightError, TrlEnvError
from trl_envs.plan.space_copy import SpaceCopy
from trl_envs.servers.hub import Hub, RefusedByHubError


def duplicate_space(
    copy: SpaceCopy, server: ServerConfig, *, private: bool | None, hardware: str | None, endpoint: str | None = None
) -> str:
    """Makes the copy; returns the address of its page.

    Args:
        copy: What to copy.
        server: Names the token's variable.
        private: Whether the copy is private; None takes after the original.
        hardware: In the Hub's words; None for its free one.
        endpoint: The Hub's address; None takes HF_ENDPOINT, or the Hub's own.

    Raises:
        PreflightError: No token, there is no such Space, the copy's name is taken, or the Hub refuses otherwise.
        StartupError: The Hub can't be reached.
    """
    hub = Hub(token_for(server), endpoint=endpoint)
    hub.require_token()
    if hub.exists(copy.target):
        raise _taken(copy)
    try:
        return hub.duplicate(copy.source, copy.target, copy.variables, private=private, hardware=hardware)
    except RefusedByHubError as error:
        raise _refusal(copy, error) from error


def _refusal(copy: SpaceCopy, error: RefusedByHubError) -> TrlEnvError:
    said = f"{copy.source} can't be copied to {copy.target}: {error.reason} (HTTP {error.status})"
    if error.status == 409:
        return _taken(copy)
    if error.status == 404:
        key = f"envs.{copy.environments[0]}.space"
        return PreflightError(said, f"check that there is such a Space: correct {key}=OWNER/NAME")
    if error.status in (401, 403):
        owner = copy.target.partition("/")[0]
        return PreflightError(said, f"the token must be one that may write to {owner}: hf auth whoami says whose it is")
    return PreflightError(said, "see what the Hub says; --hardware and --to are what it was asked for")


def _taken(copy: SpaceCopy) -> PreflightError:
    limit = copy.variables["MAX_CONCURRENT_ENVS"]
    return PreflightError(
        f"--to {copy.target}: there is a Space of that name already, and it was left as it is",
        f"if it is the copy that you want, give it room: hf spaces variables add {copy.target} "
        f"-e MAX_CONCURRENT_ENVS={limit}, and use it: {copy.overrides}; else choose another name",
    )
