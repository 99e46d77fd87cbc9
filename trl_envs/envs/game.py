"""What all games share: one session an episode, every tool call recorded, and errors sorted by whom they concern."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast, get_type_hints

from trl_envs.envs.episode import Episode, Event
from trl_envs.errors import SessionError, SessionLost

if TYPE_CHECKING:
    # openenv's client takes seconds to import, and reward terms and policies are read without a server.
    from trl_envs.rollout.session import Reply, Session, SessionOpener

Tool = TypeVar("Tool", bound=Callable[..., str])

LOST_TEXT = "The game was interrupted and can't go on. Don't call any more tools."
# How JSON, which is what a model writes, calls the types that tools take.
JSON_NAMES = {str: "a string", int: "an integer", float: "a number", bool: "true or false"}


class GameEnvironment:
    """A game as TRL's `environment_factory` sees it: `reset`, and every other public method a tool.

    A subclass implements `_begin` and its tools, each marked with `tool`. TRL lists the functions of the type, so
    whatever else a subclass needs must start with an underscore.

    `_protocols` says which fields of the server's action its tools send; a class that speaks several protocols has a
    set for each. `trl-env check` holds them against the server's /schema, and an empty tuple against nothing.

    Args:
        open_session: Opens a session for each episode.

    Attributes:
        episode: What has happened since the last reset; all that reward terms read.
    """

    _protocols: ClassVar[tuple[frozenset[str], ...]] = ()

    def __init__(self, open_session: SessionOpener) -> None:
        self._open_session = open_session
        self._session: Session | None = None
        self.episode = Episode()

    def reset(self, seed: int | None = None, **row: Any) -> str:
        """Starts a new episode on a fresh session.

        Args:
            seed: Episode seed, sent to the server; the same for all rollouts of a group.
            **row: The other columns of the dataset. `environment`, if there, names the episode's environment.

        Returns:
            The first observation, which TRL appends to the prompt. When no session could be had the episode is marked
            as lost and the text says so: an exception from here would stop the training run.
        """
        self._close()
        self.episode = Episode(environment=str(row.get("environment") or ""), seed=seed)
        try:
            self._session, reply = self._open_session(**({} if seed is None else {"seed": seed}))
            return self._begin(reply)
        except SessionError as error:
            self._lose(error)
            return LOST_TEXT

    def _begin(self, reply: Reply) -> str:
        """Takes up a new game.

        Args:
            reply: The server's answer to the reset.

        Returns:
            The text of the first observation.

        Raises:
            SessionLost: The answer is not that of this game.
        """
        raise NotImplementedError

    def _play(self, action: dict[str, Any]) -> Reply:
        """Sends the action of the tool call in progress, and records its reward and whether the game is over.

        Raises:
            SessionLost: The episode can't go on.
        """
        if self._session is None:
            raise SessionLost("the session was closed before the game was over")
        reply = self._session.step(action)
        event = self.episode.events[-1]
        event.reward, event.done = reply.reward, reply.done
        self.episode.done = reply.done
        return reply

    def _close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def _lose(self, error: SessionError) -> None:
        self.episode.lost = error.message
        self._close()

    def _call(self, name: str, method: Callable[..., str], args: tuple[Any, ...], given: dict[str, Any]) -> str:
        """Runs one tool call and records it.

        Raises:
            ValueError: The call is wrong, or comes too late; TRL gives the text to the model.
        """
        arguments = {**{f"argument {number}": value for number, value in enumerate(args, start=1)}, **given}
        event = Event(tool=name, arguments=arguments)
        self.episode.events.append(event)
        try:
            if self.episode.lost is not None:
                raise ValueError(LOST_TEXT)
            if self.episode.done:
                raise ValueError("Game over.")
            _check_arguments(name, method, args, given)
            event.result = method(self, *args, **given)
        except SessionError as error:
            self._lose(error)
            event.error = LOST_TEXT
            raise ValueError(LOST_TEXT) from error
        except ValueError as error:
            event.error = str(error)
            raise
        finally:
            if self.episode.done:
                # At once: the server's slot is needed by the next episode.
                self._close()
        return event.result


def tool(method: Tool) -> Tool:
    """Makes a method of a game a tool: arguments checked against its annotations, the call recorded as an Event.

    The wrapper keeps signature, annotations and docstring, from which TRL derives the tool's schema. Python itself
    would answer a missing or unknown argument with a TypeError that no Event remembers.
    """

    @functools.wraps(method)
    def call(self: GameEnvironment, *args: Any, **kwargs: Any) -> str:
        return self._call(method.__name__, method, args, kwargs)

    return cast(Tool, call)


def _check_arguments(name: str, method: Callable[..., str], args: tuple[Any, ...], given: dict[str, Any]) -> None:
    """Compares a model's arguments with the tool's signature.

    Raises:
        ValueError: An argument is missing, unknown or of another type.
    """
    signature = inspect.signature(method)
    expected = list(signature.parameters)[1:]
    takes = f"{name} takes {', '.join(expected)}" if expected else f"{name} takes no arguments"
    try:
        bound = signature.bind(None, *args, **given)
    except TypeError as error:
        raise ValueError(f"Wrong arguments: {takes}.") from error
    hints = get_type_hints(method)
    for parameter in expected:
        if parameter in bound.arguments:
            _check_type(parameter, bound.arguments[parameter], hints[parameter])


def _check_type(parameter: str, value: Any, wanted: Any) -> None:
    if wanted not in JSON_NAMES:
        return
    allowed = (int, float) if wanted is float else wanted
    # In Python True is an integer, in JSON it isn't.
    if not isinstance(value, allowed) or (isinstance(value, bool) and wanted is not bool):
        raise ValueError(f"{parameter} must be {JSON_NAMES[wanted]}.")
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            # Half a surrogate pair from a \\u escape: a server refuses it, which would count as a lost episode.
            raise ValueError(f"{parameter} contains characters that aren't valid text.") from error


def end_episode(environment: object) -> None:
    """Closes the session that an environment still holds, as when the model stopped before the game did.

    Harmless for anything that isn't a GameEnvironment. The episode stays readable.
    """
    if isinstance(environment, GameEnvironment):
        environment._close()
