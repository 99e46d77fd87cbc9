"""Environment classes as TRL takes them: built from the config, timed, and with a record of every episode.

TRL calls a factory without arguments and makes a tool of every public method it finds on the instance's class. So each
factory returns an instance of a subclass whose `reset` and tools have the same names, signatures and docstrings, and do
a little more: they count the time spent, and keep an Episode for classes that don't keep one themselves.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from trl_envs.agent.clock import EnvironmentClock
from trl_envs.agent.targets import check_settings, load_target, parameters_of
from trl_envs.config.schema import EnvConfig, RolloutConfig
from trl_envs.envs.episode import Episode, Event
from trl_envs.envs.game import GameEnvironment
from trl_envs.errors import ConfigError
from trl_envs.rollout.concurrent import Call, ConcurrentCalls
from trl_envs.rollout.session import SessionOpener, SessionSettings

_RECORD = "_trl_env_episode"
# The methods without the waiting for their turn, by name: what ConcurrentCalls runs in its threads.
_BARE = "_trl_env_bare"


def build_factories(
    envs: Mapping[str, EnvConfig],
    urls: Mapping[str, tuple[str, ...]],
    rollout: RolloutConfig,
    tokens: Mapping[str, str | None],
    clock: EnvironmentClock,
    calls: ConcurrentCalls | None = None,
) -> dict[str, Callable[[], Any]]:
    """TRL's dictionary of environment factories.

    Args:
        envs: Environments of the recipe by name.
        urls: Base URLs of each environment's servers.
        rollout: How sessions behave.
        tokens: Token for each environment's servers, or None.
        clock: Counts the seconds spent in environments.
        calls: Makes the calls of a batch at the same time; None makes each when it is asked for.

    Raises:
        ConfigError: A class that isn't there, isn't an environment, or doesn't take its settings.
    """
    settings = SessionSettings(
        connect_timeout_s=rollout.connect_timeout_s,
        call_timeout_s=rollout.call_timeout_s,
        capacity_wait_s=rollout.capacity_wait_s,
        ping_interval_s=rollout.ping_interval_s,
        ping_timeout_s=rollout.ping_timeout_s,
    )
    openers = {name: SessionOpener(urls[name], settings, tokens[name]) if urls[name] else None for name in envs}
    return {name: _factory(name, env, openers[name], clock, calls) for name, env in envs.items()}


def _factory(
    name: str, env: EnvConfig, opener: SessionOpener | None, clock: EnvironmentClock, calls: ConcurrentCalls | None
) -> Callable[[], Any]:
    key = f"envs.{name}.environment"
    target = load_target(env.environment["_target_"], f"{key}._target_")
    if not inspect.isclass(target) or not callable(getattr(target, "reset", None)):
        raise ConfigError(
            f"{key}._target_={env.environment['_target_']} is no environment class",
            "an environment class has a method reset(**row), and each other public method is a tool",
        )
    settings = {setting: value for setting, value in env.environment.items() if setting != "_target_"}
    check_settings(target, settings, key, given=("open_session",))
    if "open_session" in parameters_of(target):
        if opener is None:
            raise ConfigError(
                f"{target.__name__} plays on an environment server, and envs.{name} names none",
                f"name one: envs.{name}.app=my_server:app, or envs.{name}.url=http://HOST:PORT",
            )
        settings["open_session"] = opener
    return functools.partial(instrumented(target, name, clock, calls), **settings)


def instrumented(target: type, name: str, clock: EnvironmentClock, calls: ConcurrentCalls | None = None) -> type:
    """A subclass of an environment class that times its calls and keeps a record of the episode.

    Args:
        target: The environment class.
        name: The environment's name in the recipe.
        clock: Counts the seconds spent.
        calls: Makes the calls of a batch at the same time; None makes each when it is asked for.
    """
    keeps_record = issubclass(target, GameEnvironment)
    bare = {"reset": _bare_reset(target, name, clock, keeps_record)}
    bare |= {tool: _bare_tool(function, clock, keeps_record) for tool, function in tools_of(target).items()}
    namespace: dict[str, Any] = {"__doc__": target.__doc__, _BARE: bare}
    for method, function in bare.items():
        namespace[method] = _in_turn(function, clock, calls)
    if "get_reward" in dir(target):
        # TRL would score by it unasked, under the class's name; envs/rewards.py makes it a term like any other.
        namespace.update(get_reward=None, _get_reward=target.get_reward)  # type: ignore[attr-defined]
    return type(target.__name__, (target,), namespace)


def bare_call(environment: Any, name: str, arguments: Mapping[str, Any]) -> Call | None:
    """A call of an instrumented environment's method as ConcurrentCalls makes it; None if it has no such method.

    Args:
        environment: The instance.
        name: `reset` or a tool.
        arguments: By name.
    """
    function = getattr(environment, _BARE).get(name)
    if function is None:
        return None
    run = functools.partial(function, environment, **arguments)
    return Call(name, arguments, run, awaited=inspect.iscoroutinefunction(function))


def tools_of(target: type) -> dict[str, Callable[..., Any]]:
    """The methods that TRL makes tools of, by its own rule (GRPOTrainer.__init__, TRL 1.16)."""
    return {
        name: function
        for name, function in inspect.getmembers(target, predicate=inspect.isfunction)
        if name not in ("reset", "get_reward") and not name.startswith("_")
    }


def episode_of(environment: object) -> Episode:
    """The record of the episode that an instrumented environment plays or has played."""
    if isinstance(environment, GameEnvironment):
        return environment.episode
    return getattr(environment, _RECORD)  # type: ignore[no-any-return]


def _in_turn(
    function: Callable[..., Any], clock: EnvironmentClock, calls: ConcurrentCalls | None
) -> Callable[..., Any]:
    """A method as TRL calls it: it waits for the environment, or takes what came of the call already."""
    name = function.__name__
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def wait_async(self: Any, *args: Any, **arguments: Any) -> Any:
            run = functools.partial(function, self, *args, **arguments)
            with clock.waiting("tools"):
                return await (run() if calls is None or args else calls.make_awaited(self, name, arguments, run))

        return wait_async

    @functools.wraps(function)
    def wait(self: Any, *args: Any, **arguments: Any) -> Any:
        run = functools.partial(function, self, *args, **arguments)
        with clock.waiting("reset" if name == "reset" else "tools"):
            return run() if calls is None or args else calls.make(self, name, arguments, run)

    return wait


def _bare_reset(target: type, name: str, clock: EnvironmentClock, keeps_record: bool) -> Callable[..., Any]:
    original: Callable[..., Any] = target.reset  # type: ignore[attr-defined]
    parameters = parameters_of(original)
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())

    @functools.wraps(original)
    def reset(self: Any, **row: Any) -> Any:
        if not keeps_record:
            setattr(self, _RECORD, Episode(environment=name, seed=row.get("seed")))
        known = row if takes_any else {column: value for column, value in row.items() if column in parameters}
        with clock.calling():
            observation = original(self, **known)
        if keeps_record:
            self.episode.environment = name
        return observation

    return reset


def _bare_tool(function: Callable[..., Any], clock: EnvironmentClock, keeps_record: bool) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def call_async(self: Any, *args: Any, **arguments: Any) -> Any:
            with clock.calling(), _recording(self, function, arguments, keeps_record) as event:
                result = await function(self, *args, **arguments)
                event.result = str(result)
                return result

        return call_async

    @functools.wraps(function)
    def call(self: Any, *args: Any, **arguments: Any) -> Any:
        with clock.calling(), _recording(self, function, arguments, keeps_record) as event:
            result = function(self, *args, **arguments)
            event.result = str(result)
            return result

    return call


@contextmanager
def _recording(
    environment: Any, function: Callable[..., Any], arguments: Mapping[str, Any], keeps_record: bool
) -> Iterator[Event]:
    """An event for one tool call; added to the record of classes that keep none, whose `done` and `reward`,
    the attributes that TRL's guide uses, say how the episode stands."""
    event = Event(function.__name__, dict(arguments))
    if not keeps_record:
        episode_of(environment).events.append(event)
    try:
        yield event
    except Exception as error:
        event.error = str(error)
        raise
    finally:
        done, reward = getattr(environment, "done", False), getattr(environment, "reward", None)
        event.done = done is True
        event.reward = float(reward) if isinstance(reward, int | float) else None
        if not keeps_record:
            episode_of(environment).done = event.done
