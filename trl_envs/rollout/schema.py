"""Which protocol a server speaks: the fields of its action, from GET /schema."""

from __future__ import annotations

import ipaddress
import json
from urllib.parse import urlsplit
from urllib.request import OpenerDirector, ProxyHandler, Request, build_opener

from trl_envs.errors import SessionLost


def fetch_action_fields(url: str, timeout_s: float, token: str | None) -> frozenset[str]:
    """Names of the properties of the action's JSON schema.

    Args:
        url: The server's address, http(s) or ws(s).
        timeout_s: For the whole answer.
        token: Bearer token of a private server.

    Raises:
        SessionLost: The address doesn't answer, or not with OpenEnv's schema.
    """
    address = _http(url) + "/schema"
    request = Request(address)
    if token:
        # Not repeated to whatever host a redirect names.
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    try:
        with _opener(address).open(request, timeout=timeout_s) as response:
            schema = json.load(response)
        return frozenset(schema["action"]["properties"])
    except OSError as error:
        raise SessionLost(f"no schema from {address}: {error}", "check that the server runs at this address") from error
    except (ValueError, KeyError, TypeError) as error:
        raise SessionLost(
            f"{address} doesn't answer with the schema of an OpenEnv action",
            "check that the address is that of an OpenEnv server",
        ) from error


def _http(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    return {"ws": "http", "wss": "https"}.get(scheme, scheme) + separator + rest


def _opener(address: str) -> OpenerDirector:
    """Without a proxy for this machine, as the session's own connection does it."""
    host = urlsplit(address).hostname or ""
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    return build_opener(ProxyHandler({})) if local else build_opener()
