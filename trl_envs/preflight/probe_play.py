"""A scripted episode of each environment, scored by every term; and whether one seed means one game."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import random
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trl_envs.agent.dataset import episode_seed, messages
from trl_envs.agent.environments import episode_of, tools_of
from trl_envs.agent.policies import RANDOM, Move, Policy
from trl_envs.agent.policies import find_policy as scripted_policy
from trl_envs.agent.terms import RewardTerm, reward_function
from trl_envs.envs.episode import Episode
from trl_envs.envs.game import end_episode
from trl_envs.errors import TrlEnvError
from trl_envs.plan.servers import needs_no_server
from trl_envs.preflight.probe_env import Candidate, sample_arguments
from trl_envs.preflight.probe_report import Collector
from trl_envs.preflight.probe_sessions import latency

# Enough for any of the shipped games; an environment that never ends is left after so many calls.
LONGEST_EPISODE = 60
# Catch has five openings: a server that ignores seeds passes four pairs by chance once in 600 times.
SEED_PAIRS = 4
PAIRS_BUDGET_S = 10.0
# How Python shows an object that doesn't say how.
_ADDRESS = re.compile(r"<[\w.]+ object at 0x[0-9a-f]+>")


@dataclass
class Played:
    """One scripted episode.

    Args:
        observation: What `reset` returned.
        episode: The environment's record.
        conversation: The scripted turns as messages.
        step_s: Seconds of each tool call.
        rewards: Value of each term by its name.
        crashes: What tools raised besides ValueError, which is how a tool speaks to the model; by tool.
        fatal: What would end the trainer, by what did it.
        nameless: Objects that a model would be shown by their address, by what gave them.
    """

    observation: str
    episode: Episode
    conversation: list[dict[str, Any]] = field(default_factory=list)
    step_s: list[float] = field(default_factory=list)
    rewards: dict[str, float | None] = field(default_factory=dict)
    crashes: dict[str, str] = field(default_factory=dict)
    fatal: dict[str, str] = field(default_factory=dict)
    nameless: dict[str, str] = field(default_factory=dict)

    def readable(self, text: str, source: str) -> str:
        """The text as a tokenizer takes it; notes what is wrong with it."""
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            self.fatal[source] = f"{text!r:.80}, which no tokenizer takes: {error.reason}"
        address = _ADDRESS.search(text)
        if address:
            self.nameless[source] = address[0]
        return text.encode("utf-8", "replace").decode("utf-8")

    def transcript(self) -> tuple[str, list[dict[str, Any]]]:
        """What the model would have seen, with the rewards of the steps."""
        return self.observation, [dataclasses.asdict(event) for event in self.episode.events]


def check_episodes(candidate: Candidate, collector: Collector, *, pairs: int = SEED_PAIRS) -> dict[str, Any] | None:
    """Plays a scripted episode, scores it, and plays it again with the same seed.

    Args:
        candidate: The environment.
        collector: Takes the findings.
        pairs: How many seeds to play twice, time permitting.

    Returns:
        Figures of the first episode; None if it couldn't be played.
    """
    policy = find_policy(candidate)
    first: Played | None = None
    started_s = time.monotonic()
    for index in range(pairs):
        if index and time.monotonic() - started_s > PAIRS_BUDGET_S:
            break
        seed = episode_seed(candidate.config.seed, candidate.name, index)
        once = play(candidate, policy, seed, collector, terms=candidate.terms if index == 0 else ())
        twice = play(candidate, policy, seed, collector) if once is not None else None
        if once is None or twice is None:
            return None
        first = first or once
        # What is shown by its address differs each time.
        if once.transcript() != twice.transcript() and not once.nameless:
            collector.warning(
                f"envs.{candidate.name}.url",
                f"{candidate.name}: two episodes with the same seed differed, {_difference(once, twice)}: the "
                "rollouts of a group would play different games, and GRPO would compare them as if they were one",
                _seed_hint(candidate),
            )
            break
    if first is None:
        return None
    _check_calls(candidate, first, collector)
    return {"calls": len(first.episode.events), "rewards": first.rewards, "step_s": latency(first.step_s)}


def _check_calls(candidate: Candidate, played: Played, collector: Collector) -> None:
    key = f"envs.{candidate.name}.environment"
    for source, what in played.fatal.items():
        collector.error(key, f"{candidate.name}: {source} {what}", "return text, and raise ValueError to the model")
    for source, what in played.nameless.items():
        message = f"{candidate.name}: {source} {what}, which the model would read as it stands here"
        collector.warning(key, message, "return a text that says what the model should know")
    for tool, crash in played.crashes.items():
        collector.warning(
            key,
            f"{candidate.name}: the tool {tool} raised {crash}; the model would get that as text, and the run go on",
            "raise ValueError for what is the model's mistake, and mend the rest",
        )
    events = played.episode.events
    if events and all(event.error is not None for event in events):
        collector.warning(
            key,
            f"{candidate.name}: every tool call of a scripted episode failed, the last one with: {events[-1].error}",
            "trl-env play with the same recipe shows what the tools answer",
        )


def _seed_hint(candidate: Candidate) -> str:
    if needs_no_server(candidate.config):
        return "let the seed that reset(seed=...) is given decide everything that is drawn in the episode"
    return (
        "use a server that honours reset(seed=...), such as the embedded one: "
        f"envs.{candidate.name}.url=null server=local"
    )


def _difference(one: Played, other: Played) -> str:
    if one.observation != other.observation:
        return "from the first observation on"
    pairs = zip(one.episode.events, other.episode.events, strict=False)
    differing = (number for number, (a, b) in enumerate(pairs, start=1) if a != b)
    return f"at tool call {next(differing, min(len(one.episode.events), len(other.episode.events)) + 1)}"


def find_policy(candidate: Candidate) -> Policy:
    """The game's own random player if there is a module `policies` beside its class; else each tool called once."""
    return own_player(candidate, RANDOM) or script(candidate)


def own_player(candidate: Candidate, name: str) -> Policy | None:
    """A player of the module `policies` beside the class, or beside one that it inherits from with all its tools.

    Args:
        candidate: The environment.
        name: A name that agent/policies.py knows.
    """
    for owner in candidate.target.__mro__:
        found = scripted_policy(owner, name) if set(tools_of(owner)) <= candidate.schemas.keys() else None
        if found is not None:
            return found
    return None


def script(candidate: Candidate) -> Policy:
    """Calls each tool once, in the order of their schemas."""
    moves = [(tool, sample_arguments(schema)) for tool, schema in candidate.schemas.items()]

    def call_each_once(observation: str, episode: Episode, rng: random.Random) -> Move | None:
        number = len(episode.events)
        return None if episode.done or number >= len(moves) else moves[number]

    return call_each_once


def play(
    candidate: Candidate,
    policy: Policy,
    seed: int,
    collector: Collector,
    *,
    terms: Sequence[RewardTerm] = (),
    most_calls: int = LONGEST_EPISODE,
) -> Played | None:
    """Plays one episode to its end, or to where the policy stops; None if it couldn't be played.

    Args:
        candidate: The environment.
        policy: Chooses the moves; its generator starts from the seed.
        seed: Episode seed.
        collector: Takes the findings.
        terms: Score it; only the first of several equal episodes needs to be.
        most_calls: After so many tool calls it is left as it is.
    """
    key = f"envs.{candidate.name}.environment"
    environment = candidate.build()
    rng = random.Random(seed)
    try:
        observation = environment.reset(prompt=messages(candidate.config), seed=seed)
        played = Played("", episode_of(environment))
        played.observation = "" if observation is None else played.readable(str(observation), "reset returned")
        text = played.observation
        while len(played.step_s) < most_calls and played.episode.lost is None:
            move = policy(text, played.episode, rng)
            if move is None:
                break
            text = _call(environment, move, played)
        if played.episode.lost is not None:
            message = f"{candidate.name}: a scripted episode was lost: {played.episode.lost}"
            collector.error(f"envs.{candidate.name}.url", message, "look at the environment server's log")
            return None
        played.rewards = {term.name: _score(term, environment, played, seed, collector) for term in terms}
        return played
    except TrlEnvError as error:
        collector.refused(key, error)
    except (Exception, SystemExit) as error:
        collector.foreign(key, f"{candidate.name}: a scripted episode broke off", error)
    finally:
        end_episode(environment)
    return None


def _call(environment: Any, move: Move, played: Played) -> str:
    """One tool call as TRL makes it: what it raises is text for the model, and in the episode's record."""
    name, arguments = move
    started_s = time.perf_counter()
    try:
        result = getattr(environment, name)(**arguments)
        if inspect.isawaitable(result):
            result = asyncio.run(_awaited(result))
        text = played.readable(str(result), f"the tool {name} returned")
    except SystemExit as error:
        played.fatal[f"the tool {name} raised"] = f"SystemExit({error}), which ends the trainer"
        text = ""
    except Exception as error:
        text = str({"error": str(error)})
        if not isinstance(error, ValueError):
            played.crashes[name] = f"{type(error).__name__}: {error}"
    played.step_s.append(time.perf_counter() - started_s)
    call = {"type": "function", "function": {"name": name, "arguments": arguments}}
    played.conversation += [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "name": name, "content": text},
    ]
    return text


async def _awaited(result: Any) -> Any:
    return await result


def _score(term: RewardTerm, environment: Any, played: Played, seed: int, collector: Collector) -> float | None:
    """The term's value through the function that TRL would call; what it raises is a finding."""
    key = f"envs.{term.environment}.rewards.{term.name}"
    batch: Mapping[str, Any] = {
        "prompts": [[{"role": "user", "content": played.observation}]],
        "completions": [played.conversation],
        "completion_ids": [[]],
        "environments": [environment],
        "environment": [term.environment],
        "seed": [seed],
        "trainer_state": None,
        "log_extra": lambda column, values: None,
        "log_metric": lambda name, value: None,
    }
    try:
        values = reward_function(term)(**batch)
        if inspect.isawaitable(values):
            values = asyncio.run(_awaited(values))
        return values[0]  # type: ignore[no-any-return]
    except TrlEnvError as error:
        collector.refused(key, error)
    except (Exception, SystemExit) as error:
        collector.foreign(key, f"the reward term {term.full_name} failed", error)
    return None
