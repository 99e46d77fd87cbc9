"""What the rollouts of a generation batch wait for, all at the same time, for a trainer that asks one by one.

GRPOTrainer resets its environments one after the other, and makes the tool calls of one rollout after those of the
other (TRL 1.16). When it asks for the first of them, `ConcurrentCalls` runs all that it is about to ask for, and
answers the rest from what came of them. What the trainer sees, and in which order, is the same.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True)
class Call:
    """One call that a trainer will make.

    Args:
        name: Of the method.
        arguments: By name, as the trainer will pass them.
        run: Makes the call; gives its result, or a coroutine of it if `awaited`.
        awaited: Whether the method is asynchronous.
    """

    name: str
    arguments: Mapping[str, Any]
    run: Callable[[], Any]
    awaited: bool = False


@dataclass(frozen=True)
class _Outcome:
    """What came of a call that was made ahead."""

    call: Call
    value: Any = None
    error: BaseException | None = None

    def give(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value


Plan = Callable[[], Sequence[tuple[object, Sequence[Call]]]]


class ConcurrentCalls:
    """Makes the calls of many environments at the same time, each environment's own in their order.

    Args:
        workers: Environments that are called at the same time.

    Attributes:
        loop: Gives the event loop on which asynchronous methods run; to be set by whoever has one.
        problem: How the trainer's calls differed from the expected ones; empty while they don't.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self.loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.get_running_loop
        self._plan: Plan | None = None
        self._ahead: dict[int, list[_Outcome]] = {}
        self._pool: ThreadPoolExecutor | None = None
        # Asynchronous calls can't wait for the plan on their own loop, which is what it needs.
        self._planner: ThreadPoolExecutor | None = None
        self._planning = threading.Lock()
        self.problem = ""

    def __enter__(self) -> Self:
        """Threads start when they are first needed and end with the block: none waits between two batches."""
        self._pool = ThreadPoolExecutor(self._workers, thread_name_prefix="trl-env-rollout")
        self._planner = ThreadPoolExecutor(1, thread_name_prefix="trl-env-rollout-plan")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pool in (self._planner, self._pool):
            assert pool is not None
            pool.shutdown(wait=True, cancel_futures=True)
        self._planner = self._pool = self._plan = None
        self._ahead = {}

    def expect(self, plan: Plan) -> None:
        """Says how to find out, when the next call comes that wasn't made ahead, what other calls will follow it.

        Args:
            plan: Gives environments with their calls, the one that asks among them.
        """
        self.settle()
        self._plan = plan

    def settle(self) -> None:
        """Notes it as a problem if calls were made ahead that nobody has asked for."""
        left = [outcome.call.name for outcomes in self._ahead.values() for outcome in outcomes]
        if left:
            self.problem = self.problem or f"{len(left)} calls were made that it never asked for, such as {left[0]}"
        self._plan, self._ahead = None, {}

    def make(self, environment: object, name: str, arguments: Mapping[str, Any], run: Callable[[], Any]) -> Any:
        """Makes a call, or gives what came of it.

        Args:
            environment: Whose method it is.
            name: Of the method.
            arguments: By name.
            run: Makes this call alone, where nothing was expected.

        Raises:
            BaseException: Whatever the call raised.
        """
        self._foresee(environment)
        outcome = self._find(environment, name, arguments)
        return run() if outcome is None else outcome.give()

    async def make_awaited(
        self, environment: object, name: str, arguments: Mapping[str, Any], run: Callable[[], Coroutine[Any, Any, Any]]
    ) -> Any:
        """As `make`, of an asynchronous method."""
        if self._planner is not None:
            await asyncio.get_running_loop().run_in_executor(self._planner, self._foresee, environment)
        outcome = self._find(environment, name, arguments)
        return await run() if outcome is None else outcome.give()

    def each(self, function: Callable[[Any], Any], items: Sequence[Any]) -> None:
        """Calls a function with every item, several at a time; the first exception is raised when all are done."""
        assert self._pool is not None
        errors = [future.exception() for future in [self._pool.submit(function, item) for item in items]]
        for error in errors:
            if error is not None:
                raise error

    def _foresee(self, environment: object) -> None:
        """Makes all expected calls, unless those of this environment were made already."""
        with self._planning:
            if self._plan is None or self._pool is None or self._ahead.get(id(environment)):
                return
            planned = [(one, calls) for one, calls in self._plan() if calls]
            done = self._pool.map(self._run_all, [calls for _, calls in planned])
            for (one, _), outcomes in zip(planned, done, strict=True):
                self._ahead.setdefault(id(one), []).extend(outcomes)

    def _find(self, environment: object, name: str, arguments: Mapping[str, Any]) -> _Outcome | None:
        """The first outcome of such a call; None if it wasn't made ahead."""
        outcomes = self._ahead.get(id(environment), [])
        for index, outcome in enumerate(outcomes):
            if outcome.call.name == name and outcome.call.arguments == arguments:
                return outcomes.pop(index)
        if self._plan is not None:
            self.problem = self.problem or f"it called {name} when that wasn't expected"
        return None

    def _run_all(self, calls: Sequence[Call]) -> list[_Outcome]:
        """One environment's calls: those that block one after the other, then the asynchronous ones together."""
        outcomes = {id(call): _outcome(call, call.run) for call in calls if not call.awaited}
        waiting = [(call, asyncio.run_coroutine_threadsafe(call.run(), self.loop())) for call in calls if call.awaited]
        outcomes |= {id(call): _outcome(call, future.result) for call, future in waiting}
        return [outcomes[id(call)] for call in calls]


def _outcome(call: Call, run: Callable[[], Any]) -> _Outcome:
    try:
        return _Outcome(call, value=run())
    except BaseException as error:
        # Whoever asks for the call gets it, in the trainer's own thread.
        return _Outcome(call, error=error)
