"""What a failed connection means: whether trying again can help, and what to say of it."""

from __future__ import annotations

from websockets.exceptions import InvalidStatus, WebSocketException

from trl_envs.rollout.client import MalformedReplyError

# What a broken connection or a refusing server surfaces as: the client reports a server's error message as
# RuntimeError, a timeout as TimeoutError (an OSError), JSON that can't be read as ValueError.
CONNECTION_FAILURES = (RuntimeError, OSError, WebSocketException, ValueError)


def is_full(error: Exception) -> bool:
    """Whether the server had no free session."""
    return "(code: CAPACITY_REACHED)" in str(error)


def _is_forbidden(error: Exception) -> bool:
    cause = error.__cause__
    return isinstance(cause, InvalidStatus) and cause.response.status_code in (401, 403)


def may_pass(error: Exception) -> bool:
    """Whether trying again can help: not for wrong credentials, an error inside the game or a reset that hangs."""
    if is_full(error):
        return True
    if isinstance(error, (TimeoutError, MalformedReplyError)) or _is_forbidden(error):
        return False
    return isinstance(error, (ConnectionError, WebSocketException))


def reason(error: Exception, call_timeout_s: float) -> str:
    """One line for a person; the client's own timeout says nothing at all."""
    if isinstance(error, TimeoutError):
        return f"no answer within {call_timeout_s:g} s"
    return str(error) or type(error).__name__


def hint(error: Exception) -> str:
    """What to do about a server that refuses to start an episode."""
    if _is_forbidden(error):
        return (
            "the server wants a token that may read it: for a private Space of the Hub use server=space; else export "
            "the token and name its variable, server.token_env=MY_TOKEN (HF_TOKEN itself goes to no envs.NAME.url)"
        )
    if isinstance(error, TimeoutError):
        return "look at the server's log; if it is only slow, raise rollout.call_timeout_s"
    return "look at the server's log, and check that the address belongs to this environment's game"
