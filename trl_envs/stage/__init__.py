"""What is done with the servers of a run once they stand: probe, evaluate, train; one child after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from trl_envs.config.compose import Composed
from trl_envs.config.grpo_fields import grpo_value
from trl_envs.config.schema import DeadSignalAction, TrainConfig
from trl_envs.config.token import token_for
from trl_envs.errors import ProcessExited, StartupError
from trl_envs.plan.launch_plan import LaunchPlan
from trl_envs.plan.spec import ProcessSpec
from trl_envs.preflight.findings import Finding, Report
from trl_envs.preflight.live import GRACE_S, forget_report, probe_deadline_s, probe_spec, read_report
from trl_envs.preflight.space_rules import capacity_findings
from trl_envs.results.evaluation import read_evaluation
from trl_envs.results.headstart import HOLD
from trl_envs.results.outcome import Outcome, read_outcome
from trl_envs.results.rundir import RunDirectory
from trl_envs.results.signs import RunNumbers, Sign
from trl_envs.results.watch import RunWatch
from trl_envs.runtime.child import Child
from trl_envs.runtime.supervisor import Supervisor
from trl_envs.servers.health import Heartbeat
from trl_envs.servers.hub import Hub
from trl_envs.servers.images import pull_missing
from trl_envs.servers.space import await_spaces, find_spaces
from trl_envs.servers.start import heartbeat, start_servers
from trl_envs.servers.vllm import await_engine, engine_heart
from trl_envs.stage.display import Display


@dataclass(frozen=True)
class Stage:
    """The servers of a run, answering and listened to, and what plays on them.

    Args:
        run: Directory of the run.
        plan: Its processes.
        config: Its config.
        display: Shows what goes on.
        supervisor: Starts and watches the children.
        beat: Listens to the servers.
        refused: What the Hub says against its Spaces. No server was started then, and there is nothing to probe.
        ahead: The child that plays first, which loads its libraries meanwhile; None if nothing will be played.
    """

    run: RunDirectory
    plan: LaunchPlan
    config: TrainConfig
    display: Display
    supervisor: Supervisor
    beat: Heartbeat
    refused: Sequence[Finding] = ()
    ahead: Child | None = None

    def probe(self, *, all_sessions: bool) -> Report:
        """Tries in a child what can only be tried: imports, template, sessions, an episode.

        Nothing is tried of what the Hub speaks against already.

        Args:
            all_sessions: Whether to open all sessions on Spaces of others too.

        Raises:
            StartupError: It gave no result in time.
            ProcessExited: It died, or a server did.
        """
        forget_report(self.run.path)
        if self.refused:
            return Report(list(self.refused))
        self.display.probing()
        probe = self.supervisor.start(probe_spec(self.plan, self.run.path, all_sessions=all_sessions))
        limit_s = probe_deadline_s(self.config.rollout) + GRACE_S
        give_up_at_s = time.monotonic() + limit_s

        def tick() -> None:
            if time.monotonic() > give_up_at_s:
                raise StartupError(
                    f"the probe gave no result within {limit_s:g} s\n{probe.describe_log()}",
                    f"see what it hangs at: {probe.spec.command()}",
                )

        code = self._wait(probe, tick)
        report = read_report(self.run.path)
        if code != 0 or report is None:
            raise ended_early("the probe", probe)
        return report

    @contextmanager
    def generating(self) -> Iterator[None]:
        """Inside, the plan's vLLM server generates for the trainer, if the plan has one. It is stopped afterwards.

        Raises:
            StartupError: It died, wasn't ready in time, or isn't what the trainer needs.
        """
        engine = self.plan.engine
        if engine is None:
            yield
            return
        child = self.supervisor.start(engine.process)
        self.display.server_awaited(child.name, f"loading {engine.model}")
        seconds = await_engine(engine, child, self.supervisor)
        self.beat.add(child.name, engine_heart(engine, child, self.config.launch.heartbeat_timeout_s))
        self.display.server_ready(child.name, (engine.url,), seconds)
        yield
        # What plays after training needs it no more: its end would be no failure, and its GPU is free.
        self.beat.remove(child.name)
        self.supervisor.end(child)

    def evaluate(self, name: str) -> None:
        """Has a model play `before` or `after` training, or a player of `trl-env eval`, if the plan has that.

        Raises:
            TrlEnvError: The evaluation's own error.
            ProcessExited: It died, or a server did.
        """
        if name not in self.plan.evaluations:
            return
        child = self._turn_of(self.plan.evaluations[name])
        episodes = self.config.eval.episodes * len(self.config.envs)
        with self.display.evaluating(self.run, name, episodes) as tick:
            code = self._wait(child, tick)
        found = read_evaluation(self.run, name)
        error = found.exception() if isinstance(found, Outcome) else None
        if error is not None:
            raise error
        if code != 0 or found is None:
            when = f"{name} training" if name in ("before", "after") else f"of {name}"
            raise ended_early(f"the evaluation {when}", child)

    def train(self, watch: RunWatch) -> int:
        """Trains; returns the number of steps.

        Args:
            watch: Looks for signs that the run can't learn.

        Raises:
            TrlEnvError: The trainer's own error, or that of a run which is to be stopped at such a sign.
            ProcessExited: It died, or a server did.
        """
        trainer = self._turn_of(self.plan.trainer)
        with self.display.training(self.run, self.plan) as tick:

            def look() -> None:
                tick()
                watch.look()

            code = self._wait(trainer, look)
        outcome = read_outcome(self.run)
        error = outcome.exception() if outcome is not None else None
        if error is not None:
            raise error
        if code != 0 or outcome is None or outcome.global_step is None:
            raise ended_early("the trainer", trainer)
        return outcome.global_step

    def have(self, spec: ProcessSpec, tick: Callable[[], None] = lambda: None) -> Child:
        """Starts a child and waits until it has ended, however it does.

        Args:
            spec: What to start.
            tick: Called a few times a second.

        Raises:
            ProcessExited: A server died meanwhile.
        """
        child = self.supervisor.start(spec)
        self._wait(child, tick)
        return child

    def _turn_of(self, spec: ProcessSpec) -> Child:
        """Starts a child, or tells the one that was started ahead to begin."""
        if self.ahead is None or self.ahead.name != spec.name:
            return self.supervisor.start(spec)
        self.run.go_file.touch()
        return self.ahead

    def _wait(self, child: Child, tick: Callable[[], None]) -> int:
        """Waits for a child's exit code; a server that dies or hangs meanwhile is an error."""

        def look() -> None:
            tick()
            self.beat.check()

        return self.supervisor.watch(child, look)


def build_watch(run: RunDirectory, config: TrainConfig, tell: Callable[[Sign], None]) -> RunWatch:
    """What follows a run's metrics, as its config asks for it; `tell` is called with each sign."""
    numbers = RunNumbers(
        recipe=config.recipe,
        weights={
            f"{name}.{term}": float(weight)
            for name, env in config.envs.items()
            for term, node in env.rewards.items()
            # What is no number the probe refuses, by the term's name.
            if isinstance(weight := node.get("weight", 1.0), int | float)
        },
        max_completion_length=grpo_value(config.grpo, "max_completion_length"),
        num_generations=grpo_value(config.grpo, "num_generations"),
        temperature=grpo_value(config.grpo, "temperature"),
        learning_rate=grpo_value(config.grpo, "learning_rate"),
    )
    stop = config.watch.on_dead_signal is DeadSignalAction.stop
    return RunWatch(run.metrics_file, numbers, config.watch.patience_steps, stop=stop, tell=tell)


@contextmanager
def standing(
    run: RunDirectory, plan: LaunchPlan, composed: Composed, display: Display, *, play: bool = True
) -> Iterator[Stage]:
    """The servers of a run, started, answering and listened to; stopped with all else at the end.

    What plays first is started beside them: while the probe works it loads its libraries, which takes some ten seconds,
    and nothing else before it is told to. Where the Hub says that a Space is too small, nothing is started, and `probe`
    gives that as its report.

    Args:
        run: Directory of the run, with config.yaml and plan.json.
        plan: Its processes.
        composed: Its config.
        display: Shows what goes on.
        play: Whether anything will be played after the probe.

    Raises:
        PreflightError: There is no such Space, or no token for it.
        StartupError: A server died, or didn't answer in time; an image or a Space can't be had.
        Interrupted: A signal came.
    """
    config = composed.config
    with Supervisor(run.logs_dir) as supervisor:
        hub = Hub(token_for(config.server), supervisor.check_interrupted)
        found = find_spaces(plan, config.server, hub)
        user = found.user.name if found.user else None
        refused = capacity_findings(config, found.plan, user, composed.overrides)
        if refused:
            yield Stage(run, found.plan, config, display, supervisor, Heartbeat({}), refused)
            return
        located = await_spaces(found.plan, config.server, hub, display.server_awaited)
        if located != plan:
            # Probe, trainer and evaluations read the addresses from there.
            run.write_plan(located.as_dict())
        pull_missing(located, supervisor, display.server_awaited)
        run.go_file.unlink(missing_ok=True)
        run.outcome_file.unlink(missing_ok=True)
        ahead = supervisor.start(_held(located), needed=False) if play else None
        servers = start_servers(located, supervisor, display.server_ready)
        with heartbeat(located, servers, config.server, config.rollout) as beat:
            yield Stage(run, located, config, display, supervisor, beat, ahead=ahead)
    run.go_file.unlink(missing_ok=True)


def _held(plan: LaunchPlan) -> ProcessSpec:
    """The child that plays first, told to wait for its turn."""
    first = plan.evaluations.get("before", plan.trainer)
    return replace(first, argv=(*first.argv, HOLD))


def ended_early(what: str, child: Child) -> ProcessExited:
    """The error of a child that ended without having done what it was for."""
    return ProcessExited(
        f"{what} ended before the run did: {child.describe_exit()}\n{child.describe_log()}",
        f"the whole log is {child.log}",
    )
