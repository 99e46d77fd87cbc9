"""The environment classes as they are, against OpenEnv's own servers and beside trl-env's.

Where the two servers differ, the difference is asserted too: when it goes, trl-env should know.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.conftest import OfficialServers
from tests.conformance.games import GAMES, embedded, played, policy_of, scored
from tests.conformance.official import OFFICIAL, ROOT
from tests.envs.textarena_play import games, secret_of
from trl_envs.envs.episode import Episode
from trl_envs.envs.game import end_episode
from trl_envs.envs.sudoku import SudokuEnv
from trl_envs.envs.sudoku.grid import Grid
from trl_envs.envs.sudoku.policies import solve
from trl_envs.envs.textarena.words import shipped_words
from trl_envs.envs.wordle import WordleEnv
from trl_envs.errors import ServerFull
from trl_envs.rollout.session import Reply, Session, SessionOpener, SessionSettings

pytestmark = pytest.mark.conformance
NO_WORD = "qzxqz"
# openenv-core 0.2.3 and 0.3.0 leave it out of what they send, openenv 0.10 doesn't; no class reads it.
METADATA = {"metadata": "dict"}


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    """Ends what a test has begun, whatever happens in it."""
    with ExitStack() as stack:
        yield stack


def opened(url: str, closing: ExitStack, seed: int = 0) -> tuple[Session, Reply]:
    session, reply = SessionOpener([url])(seed=seed)
    closing.callback(session.close)
    return session, reply


def kinds(values: dict[str, Any]) -> dict[str, str]:
    """Names and JSON types, of one level."""
    return {name: type(value).__name__ for name, value in values.items()}


@pytest.mark.parametrize("name", GAMES)
def test_whole_episodes_are_played_and_scored_as_with_the_embedded_server(name: str, official: OfficialServers) -> None:
    game = GAMES[name]
    with embedded(name) as own:
        for kind in ("solver", "random_policy"):
            policy = policy_of(name, kind)
            for seed in range(game.episodes):
                theirs = played(name, official.url(name), policy, seed)[1]
                ours = played(name, own, policy, seed)[1]
                assert theirs.lost is None
                assert theirs.done is ours.done
                assert kinds(theirs.facts) == kinds(ours.facts)
                assert kinds(scored(name, theirs)) == kinds(scored(name, ours))
                if kind == "solver":
                    check_solved(name, theirs)


def check_solved(name: str, episode: Episode) -> None:
    """What a solver's episode is worth; wordle's, which doesn't win every time, has a test of its own."""
    terms, rewards = scored(name, episode), [event.reward for event in episode.events]
    if name == "echo":
        assert (rewards, terms) == ([None], {"length": pytest.approx(9.5)})
    elif name == "catch":
        assert (rewards, terms) == ([0.0] * 8 + [1.0], {"caught": 1.0})
        assert episode.facts == {"caught": True, "moves": 9}
    elif name == "sudoku":
        assert rewards == [0.0] * (len(rewards) - 1) + [1.0]
        whole = {"solved": 1.0, "progress": 1.0, "empty_cell": 1.0, "valid_move": 1.0, "repetition": 0.0}
        assert terms == whole


def test_the_wordle_solver_wins_most(official: OfficialServers) -> None:
    url, solver = official.url("wordle"), policy_of("wordle", "solver")
    wins = [scored("wordle", played("wordle", url, solver, seed)[1])["win"] for seed in range(6)]
    assert sum(1.0 <= win < 1.5 for win in wins) >= 4
    assert all(win == 0.0 or 1.0 <= win < 1.5 for win in wins)


@pytest.mark.parametrize("kind", ["solver", "random_policy"])
def test_the_same_game_of_catch_is_the_same_to_the_letter(kind: str, official: OfficialServers) -> None:
    def replayed(url: str, seed: int) -> tuple[list[str], Episode]:
        """A game in which only the opening, one of five, is chance: the moves follow from it."""
        moves = random.Random(1)
        texts, episode = played(
            "catch", url, lambda text, record, _: policy_of("catch", kind)(text, record, moves), seed
        )
        episode.seed = None
        return texts, episode

    with embedded("catch") as own:
        ours = {game[0][0]: game for game in (replayed(own, seed) for seed in range(60))}
    assert len(ours) == 5
    for seed in range(12):
        texts, episode = replayed(official.url("catch"), seed)
        assert (texts, episode) == ours[texts[0]]


def test_the_same_game_of_wordle_is_the_same_to_the_letter(official: OfficialServers, closing: ExitStack) -> None:
    theirs = WordleEnv(SessionOpener([official.url("wordle")]))
    closing.callback(end_episode, theirs)
    first = theirs.reset(seed=1)
    secret = secret_of(theirs)
    factory = games("Wordle-v0")
    seed = next(s for s in range(10**5) if factory.start(s).state.game_state["secret_word"] == secret)
    others = [word for word in shipped_words("en-basic") if word != secret][:3]
    with embedded("wordle") as own:
        ours = WordleEnv(SessionOpener([own]))
        closing.callback(end_episode, ours)
        assert ours.reset(seed=seed) == first
        for guess in (others[0], NO_WORD, others[1], others[1], "[abc]", others[2], secret):
            assert said(theirs, guess) == said(ours, guess)
    # Of the record the seed alone may differ.
    theirs.episode.seed = seed
    assert theirs.episode == ours.episode
    assert (theirs.episode.done, theirs.episode.facts["won"], theirs.episode.facts["invalid"]) == (True, True, 3)
    assert scored("wordle", theirs.episode) == scored("wordle", ours.episode)


def said(environment: WordleEnv, guess: str) -> str:
    try:
        return environment.guess(guess=guess)
    except ValueError as error:
        return f"error: {error}"


def test_a_second_invalid_word_in_a_row_ends_the_game(official: OfficialServers, closing: ExitStack) -> None:
    environment = WordleEnv(SessionOpener([official.url("wordle")]))
    closing.callback(end_episode, environment)
    environment.reset(seed=1)
    assert "is not an English word" in environment.guess(guess=NO_WORD)
    assert environment.guess(guess=NO_WORD).endswith("That was a second invalid move in a row. Game over.")
    assert environment.episode.done
    assert environment.episode.facts["ended_by_invalid"] is True
    assert scored("wordle", environment.episode) == {"win": 0.0, "partial": 0.0, "invalid": pytest.approx(-0.2)}


def test_a_second_wrong_number_in_a_row_ends_the_game(official: OfficialServers, closing: ExitStack) -> None:
    environment = SudokuEnv(SessionOpener([official.url("sudoku")]))
    closing.callback(end_episode, environment)
    environment.reset(seed=1)
    grid = Grid.parse(environment.episode.facts["board"])
    solution = solve(grid)
    assert solution is not None
    (first, second) = grid.empty[:2]
    right = {"row": first[0], "column": first[1], "number": solution.at(*first)}
    wrong = {"row": second[0], "column": second[1], "number": solution.at(*second) % 9 + 1}
    assert environment.place(**right).startswith("Placed ")
    assert "A second one in a row ends the game" in environment.place(**wrong)
    assert "That was the second in a row. Game over." in environment.place(**wrong)
    assert environment.episode.done
    facts = environment.episode.facts
    assert (facts["ended_by_invalid"], facts["accepted"], facts["warned"], facts["repeats"]) == (True, 1, 1, [1])
    # The server's own reward at the end is the share of cells that were filled.
    assert environment.episode.events[-1].reward == pytest.approx(1 / len(grid.empty))


@pytest.mark.parametrize("name", ["catch", "wordle", "sudoku"])
def test_the_official_server_ignores_the_seed(name: str, official: OfficialServers, closing: ExitStack) -> None:
    def start() -> str:
        with ExitStack() as stack:
            session, reply = opened(official.url(name), stack, seed=7)
            if name == "wordle":
                return str(session._client.state()["raw_state"]["game_state"]["secret_word"])
            return str(reply.observation)

    # Catch has five openings: ten games with one seed are the same by chance once in two millions.
    assert len({start() for _ in range(10 if name == "catch" else 3)}) > 1


@pytest.mark.parametrize("name", GAMES)
def test_one_session_too_many_is_refused(name: str, official: OfficialServers, closing: ExitStack) -> None:
    url, sessions = official.url(name), OFFICIAL[name].sessions
    held = [opened(url, closing)[0] for _ in range(sessions)]
    at_once = SessionOpener([url], SessionSettings(capacity_wait_s=0.0))
    with pytest.raises(ServerFull, match=rf"{sessions}/{sessions} sessions active.*CAPACITY_REACHED"):
        at_once(seed=0)
    held[0].close()
    assert opened(url, closing)[1].done is False


@pytest.mark.parametrize("name", ["catch", "wordle", "sudoku"])
def test_the_wire_is_that_of_the_embedded_server(name: str, official: OfficialServers, closing: ExitStack) -> None:
    with embedded(name) as own:
        assert SessionOpener([official.url(name)]).action_fields() == SessionOpener([own]).action_fields()
        (theirs, their_reset), (ours, our_reset) = opened(official.url(name), closing), opened(own, closing)
        action = dict(GAMES[name].action)
        for their_reply, our_reply in ((their_reset, our_reset), (theirs.step(action), ours.step(action))):
            assert kinds(their_reply.observation) | METADATA == kinds(our_reply.observation)
            assert METADATA.keys().isdisjoint(their_reply.observation)
            assert type(their_reply.reward) is type(our_reply.reward)
            assert their_reply.done is our_reply.done is False
            for field in ("messages", "info"):
                assert nested(their_reply.observation.get(field)) == nested(our_reply.observation.get(field))
        ours.close()


def nested(value: Any) -> Any:
    """The JSON types of what is inside."""
    if isinstance(value, dict):
        return {name: nested(inner) for name, inner in value.items()}
    return [nested(inner) for inner in value] if isinstance(value, list) else type(value).__name__


def test_the_echo_servers_speak_different_protocols(official: OfficialServers, closing: ExitStack) -> None:
    fields = SessionOpener([official.url("echo")]).action_fields()
    assert fields == {"type", "tool_name", "arguments", "metadata"}
    session, reply = opened(official.url("echo"), closing)
    assert (reply.reward, reply.done, reply.observation) == (0.0, False, {})
    reply = session.step(dict(GAMES["echo"].action))
    assert (reply.reward, reply.done, reply.observation["error"]) == (None, False, None)
    assert reply.observation["result"]["data"] == "hello"
    with embedded("echo") as own:
        assert SessionOpener([own]).action_fields() == {"message", "metadata"}


@pytest.mark.parametrize(
    ("recipe", "name", "code", "said_of_it"),
    [
        ("catch", "catch", 0, "two episodes with the same seed differed"),
        ("sudoku", "sudoku", 0, "two episodes with the same seed differed"),
        ("catch", "sudoku", 2, "lack action_id and game_name; they have message"),
    ],
)
def test_a_check_as_a_user_types_it(
    recipe: str, name: str, code: int, said_of_it: str, official: OfficialServers, tmp_path: Path
) -> None:
    url = f"envs.{recipe}.url={official.url(name)}"
    done = subprocess.run(
        [sys.executable, "-m", "trl_envs", "check", f"recipe={recipe}", "preset=smoke", url],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert said_of_it in " ".join((done.stdout + done.stderr).split())
