"""The processes of one launch, started, awaited, watched and stopped together."""

from __future__ import annotations

import shlex
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from trl_envs.errors import Interrupted, ProcessExited, StartupError
from trl_envs.plan.spec import ProcessSpec
from trl_envs.runtime.child import Child, start_child
from trl_envs.runtime.guard import clean_up, end_groups, running_groups
from trl_envs.runtime.ready import ask_ready, check_port_free
from trl_envs.runtime.signals import SignalRecorder
from trl_envs.runtime.watchdog import Watchdog

READY_POLL_S = 0.1


class Supervisor:
    """Starts processes and makes sure that none of them outlives it, whatever happens to it.

    Used as a context manager. Inside, SIGINT, SIGTERM and SIGHUP are recorded, and the next wait raises Interrupted;
    leaving stops everything. If this process is killed, the guard (guard.py) stops everything.

    Args:
        log_dir: Takes `<name>.log` of every process.
        stop_grace_s: Seconds between TERM and KILL when stopping.
    """

    def __init__(self, log_dir: Path, *, stop_grace_s: float = 10.0) -> None:
        self._log_dir = log_dir
        self._stop_grace_s = stop_grace_s
        self._children: list[Child] = []
        self._needed: set[Child] = set()
        self._signals = SignalRecorder()
        self._watchdog: Watchdog | None = None

    def __enter__(self) -> Supervisor:
        self._signals.install()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.stop()
        finally:
            self._signals.restore()
        if error is None:
            # A signal that no wait was there to notice mustn't be lost: a sweep would go on to its next job.
            self.check_interrupted()

    def check_interrupted(self) -> None:
        """Raises Interrupted if a signal has come; for work between the waits, which check by themselves."""
        if self._signals.received:
            raise Interrupted(self._signals.received[0])

    def start(self, spec: ProcessSpec, *, needed: bool = True) -> Child:
        """Starts a process in its own session, its output appended to `log_dir/<name>.log`.

        Args:
            spec: What to start.
            needed: Whether others need it: its end ends the wait for them.

        Raises:
            StartupError: Its port is taken, or its program can't be run.
            Interrupted: A signal has come.
        """
        self.check_interrupted()
        check_port_free(spec)
        if self._watchdog is None:
            self._watchdog = Watchdog()
        child = start_child(spec, self._log_dir, self._watchdog)
        self._children.append(child)
        if needed:
            self._needed.add(child)
        return child

    def wait_ready(self, child: Child) -> float:
        """Waits until a server answers 200 at its `ready` URL; returns the seconds that took.

        Raises:
            StartupError: It or another process ended, or it didn't answer in time; with the end of the log.
            Interrupted: A signal has come.
        """
        ready = child.spec.ready
        if ready is None:
            raise ValueError(f"{child.name} has no `ready` to wait for")
        started = time.monotonic()
        deadline = started + ready.timeout_s
        while True:
            answer = ask_ready(ready.url, lambda: self._check_starting(child), deadline)
            # Checked after a good answer too: it may have been another server's, and the child dead of its port.
            self._check_starting(child)
            if not answer:
                return time.monotonic() - started
            if time.monotonic() >= deadline:
                longer = f"raise {ready.key}" if ready.key else "give it longer"
                raise StartupError(
                    f"{child.name} wasn't ready within {ready.timeout_s:g} s at {ready.url}: {answer}\n"
                    f"{child.describe_log()}",
                    f"{longer} if it is slow to load, or start it by hand to see what it does: {child.spec.command()}",
                )
            time.sleep(READY_POLL_S)

    def watch(self, main: Child, on_tick: Callable[[], None] = lambda: None, tick_s: float = 0.2) -> int:
        """Waits until `main` ends; returns its exit code (minus the signal that killed it).

        What `main` leaves running in its process group is stopped before this returns.

        Args:
            main: The process whose end is expected.
            on_tick: Called every `tick_s`, and once more after `main` has ended.
            tick_s: Seconds between looks.

        Raises:
            ProcessExited: Another process ended meanwhile; with its exit and the end of its log.
            Interrupted: A signal has come.
        """
        while True:
            self.check_interrupted()
            code = main.poll()
            if code is None:
                self._check_others(main)
                on_tick()
                time.sleep(tick_s)
                continue
            if code != 0:
                # A server that dies takes the trainer with it, and is the cause to name; it may end a moment later.
                time.sleep(tick_s)
                self._check_others(main)
            on_tick()
            self._end(main, self._is_hurried(len(self._signals.received)))
            return code

    def end(self, child: Child) -> None:
        """Stops one process that is no longer needed, with all it started: TERM, `stop_grace_s`, KILL."""
        self._end(child, self._is_hurried(len(self._signals.received)))

    def stop(self) -> None:
        """Stops all processes with all they started, the last one first: TERM, `stop_grace_s`, KILL.

        A signal that comes meanwhile ends the grace: a second Ctrl-C kills at once, and orphans nothing. Harmless to
        call twice.
        """
        hurried = self._is_hurried(len(self._signals.received))
        for child in reversed(self._children.copy()):
            self._end(child, hurried)
        if self._watchdog is not None:
            self._watchdog.close()
            self._watchdog = None

    def _is_hurried(self, signals_before: int) -> Callable[[], bool]:
        return lambda: len(self._signals.received) > signals_before

    def _end(self, child: Child, hurried: Callable[[], bool]) -> None:
        if child.poll() is None or running_groups([child.pid]):
            survivors = end_groups([child.pid], 0.0 if hurried() else self._stop_grace_s, hurried)
            if survivors:
                # The guard still knows of it, and tries again.
                warnings.warn(f"{child.name} (pid {child.pid}) can't be killed", RuntimeWarning, stacklevel=3)
                return
            child.wait()
        # The guard forgets the child only afterwards, so that it cleans up if this process is killed meanwhile.
        problem = clean_up(child.spec.cleanup) if child.spec.cleanup else ""
        if problem:
            by_hand = shlex.join(child.spec.cleanup)
            warnings.warn(
                f"{child.name} may have left something behind ({problem}); to remove it: {by_hand}",
                RuntimeWarning,
                stacklevel=3,
            )
        self._children.remove(child)
        self._needed.discard(child)
        if self._watchdog is not None:
            self._watchdog.remove(child.pid)

    def _check_starting(self, awaited: Child) -> None:
        self.check_interrupted()
        for child in self._children:
            if child in self._needed and child.poll() is not None:
                what = "it" if child is awaited else awaited.name
                raise StartupError(
                    f"{child.name} ended before {what} was ready: {child.describe_exit()}\n{child.describe_log()}",
                    f"start it by hand to see what it does: {child.spec.command()}",
                )

    def _check_others(self, main: Child) -> None:
        for child in self._children:
            if child is not main and child in self._needed and child.poll() is not None:
                raise ProcessExited(
                    f"{child.name} ended while {main.name} needed it: {child.describe_exit()}\n{child.describe_log()}",
                    f"the whole log is {child.log}",
                )
