"""The vLLM server of a run: whether the one that answers is the one that the trainer needs.

TRL waits for ever on a server whose /health answers anything but 200, takes any program that answers it for a vLLM, and
doesn't look at what it serves (trl/generation/vllm_client.py, 1.16). So all of that is found out before the trainer is.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, build_opener

from trl_envs.errors import StartupError
from trl_envs.plan.launch_plan import EnginePlan
from trl_envs.runtime.child import Child
from trl_envs.runtime.supervisor import Supervisor
from trl_envs.servers.health import Heart, why_silent
from trl_envs.servers.patience import NoAnswerError, answer_of

# The first requests after a start may wait for the last of the loading.
ANSWER_TIMEOUT_S = 30.0
# Of the page /metrics: the requests in each engine of the server, and the tokens that it has read and written.
_REQUESTS = ("num_requests_running", "num_requests_waiting")
_TOKENS = ("prompt_tokens_total", "generation_tokens_total")
_FIGURE = re.compile(r'^vllm:(\w+)\{(?:[^}]*,)?engine="(\w+)"[^}]*\} (\S+)$', re.MULTILINE)


class UnfitError(Exception):
    """What keeps a server from generating for TRL."""


def await_engine(engine: EnginePlan, child: Child, supervisor: Supervisor) -> float:
    """Waits until the plan's vLLM server can generate for the trainer; returns the seconds until it answered.

    Raises:
        StartupError: It died, wasn't ready in time, or isn't what TRL needs; with the end of its log.
        Interrupted: A signal came.
    """
    seconds = supervisor.wait_ready(child)
    problem = why_unfit(engine, supervisor.check_interrupted)
    if problem:
        raise StartupError(
            f"what answers at {engine.url} can't generate for the trainer: {problem}\n{child.describe_log()}",
            f"start it by hand to see what it is: {child.spec.command()}",
        )
    return seconds


def why_unfit(engine: EnginePlan, check: Callable[[], None], timeout_s: float = ANSWER_TIMEOUT_S) -> str:
    """What keeps the server from being the one of the plan; empty if nothing does.

    Args:
        engine: The plan's server.
        check: Called while an answer is awaited; raises to end the wait.
        timeout_s: Seconds for each answer.
    """

    def ask(page: str, missing: str) -> Any:
        try:
            status, text = answer_of(lambda: _get(f"{engine.url}{page}", timeout_s), timeout_s + 1, check)
        except (NoAnswerError, URLError, OSError, ValueError) as error:
            raise UnfitError(f"{page} gives no answer ({str(error) or 'too late'})") from error
        if status != 200:
            raise UnfitError(missing if status == 404 else f"{page} answers {status}")
        try:
            return json.loads(text)
        except ValueError as error:
            raise UnfitError(f"it is no vLLM server: {page} isn't JSON") from error

    try:
        _examine(engine, ask)
    except UnfitError as error:
        return str(error)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        return f"it is no vLLM server of a release that TRL speaks to: an answer lacks {error}"
    return ""


def _examine(engine: EnginePlan, ask: Callable[[str, str], Any]) -> None:
    served = ask("/v1/models", "it is no vLLM server: it has no page /v1/models")["data"][0]["id"]
    if served != engine.model:
        raise UnfitError(f"it serves {served}, and the run trains {engine.model}")
    size_page = "/get_world_size"
    size = ask(size_page, f"it has no page {size_page}: it is another kind of server, or VLLM_SERVER_DEV_MODE isn't 1")
    info = ask("/server_info?config_format=json", "it has no page /server_info, by which TRL asks how it was started")
    if info["vllm_config"]["weight_transfer_config"] is None:
        raise UnfitError("it has no weight-transfer engine (--weight-transfer-config)")
    if size["world_size"] != engine.world_size:
        raise UnfitError(f"it generates on {size['world_size']} GPU(s), and {engine.world_size} were planned")


@dataclass
class Pulse:
    """Whether a vLLM server works, as a `Heart` asks it: it answers, and each engine with requests gets on with them.

    TRL never gives a request up. An engine that hangs lets the server's /health answer 200 all the same.

    Args:
        url: Base URL of the server.
    """

    url: str
    _tokens: dict[str, float] = field(default_factory=dict)

    def why_stuck(self, timeout_s: float) -> str:
        """What is wrong now; empty if nothing is. A server without a page of figures is only asked whether it answers.

        Args:
            timeout_s: Seconds for each answer.
        """
        silent = why_silent(self.url, timeout_s)
        if silent:
            return silent
        try:
            requests, tokens = self.look(timeout_s)
        except (URLError, OSError) as error:
            return f"/metrics gives no answer: {error}"
        before, self._tokens = self._tokens, tokens
        stuck = sum(count for name, count in requests.items() if name in tokens and tokens[name] == before.get(name))
        return f"{stuck:g} requests wait in it, and no token comes" if stuck else ""

    def look(self, timeout_s: float) -> tuple[dict[str, float], dict[str, float]]:
        """Requests in each engine, and the tokens that it has read and written since its start; empty if not told.

        Raises:
            OSError: No answer.
        """
        _, text = _get(f"{self.url}/metrics", timeout_s)
        requests: defaultdict[str, float] = defaultdict(float)
        tokens: defaultdict[str, float] = defaultdict(float)
        for name, engine, value in _FIGURE.findall(text):
            if name in _REQUESTS:
                requests[engine] += float(value)
            elif name in _TOKENS:
                tokens[engine] += float(value)
        return dict(requests), dict(tokens)


def engine_heart(engine: EnginePlan, child: Child, patience_s: float) -> Heart:
    """What listens to the plan's vLLM server while it generates.

    Args:
        engine: The plan's server.
        child: Its process.
        patience_s: Seconds without an answer, or without a token for those who wait, after which it counts as hung.
    """
    key, pulse = "launch.heartbeat_timeout_s", Pulse(engine.url)
    return Heart("the vLLM server", engine.url, patience_s, child.describe_log, key=key, ask=pulse.why_stuck)


def _get(url: str, timeout_s: float) -> tuple[int, str]:
    """Status and text of a page of this machine, past all proxies."""
    try:
        with build_opener(ProxyHandler({})).open(url, timeout=timeout_s) as response:
            return response.status, response.read().decode("utf-8", errors="replace")
    except HTTPError as error:
        with error:
            return error.code, ""
