"""The server of textarena's games: wire, seeds, settings, words, and what it refuses."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.envs.textarena_play import games, playing
from tests.loopback import state_of
from trl_envs.envs.textarena.games import GameFactory
from trl_envs.envs.textarena.reading import Transcript
from trl_envs.envs.textarena.server import TextArenaServer
from trl_envs.envs.textarena.settings import GameKind, GameSettings, value_of
from trl_envs.envs.textarena.signals import WordleSignals
from trl_envs.envs.textarena.wire import TextArenaAction
from trl_envs.envs.textarena.words import shipped_words, textarena_words
from trl_envs.errors import ConfigError, SessionLost
from trl_envs.rollout.session import Reply, SessionOpener

REPOSITORY = Path(__file__).parent.parent.parent
KIND = GameKind(("Sudoku-v0", "Sudoku-v0-easy"), {"clues": (17, 80)})


def test_the_wire_is_that_of_the_official_textarena_server() -> None:
    with playing("Wordle-v0") as server:
        open_session = SessionOpener([server.url])
        # Fields of envs/textarena_env/models.py in huggingface/OpenEnv; `metadata` is every action's and observation's.
        assert open_session.action_fields() == {"message", "metadata"}
        session, reply = open_session(seed=0)
        fields = {"prompt", "messages", "current_player_id", "legal_players", "info", "metadata"}
        assert set(reply.observation) == fields
        assert (reply.reward, reply.done) == (0.0, False)
        (message,) = reply.observation["messages"]
        assert (message["sender_id"], message["category"]) == (-1, "MESSAGE")
        assert message["content"].startswith(
            "\n[GAME] You are Playing Wordle.\nA secret 5-letter word has been chosen."
        )
        assert reply.observation["prompt"] == message["content"].strip()
        assert (reply.observation["current_player_id"], reply.observation["legal_players"]) == (0, [0])
        # As in the official server, the message grows and brackets may be left out.
        after = session.step({"message": "crane"})
        assert set(after.observation) == fields
        assert after.observation["messages"][0]["content"].startswith(message["content"] + "\n[GAME] [crane]\n")
        assert after.observation["prompt"] == "Wordle-v0"
        assert set(after.observation["info"]["reward_signals"]) == {
            *("wordle.greens", "wordle.yellows", "wordle.repetitions", "wordle.correct")
        }
        state = state_of(session)
        assert {"env_id", "num_players", "turn", "last_reward", "last_info", "raw_state"} <= set(state)
        assert set(state["raw_state"]) == {
            *("turn", "game_state", "logs", "rewards", "done", "role_mapping", "game_info", "step_info"),
            "reward_signals",
        }
        session.close()


@pytest.mark.parametrize(("env_id", "distinct"), [("Wordle-v0", 30), ("Sudoku-v0", 64)])
def test_a_seed_is_a_game_in_any_order_under_64_concurrent_sessions(env_id: str, distinct: int) -> None:
    with playing(env_id, sessions=80) as server:
        open_session = SessionOpener([server.url])
        opened = []

        def start(seed: int) -> str:
            session, _ = open_session(seed=seed)
            # Kept open, so that 64 games are under way at once.
            opened.append(session)
            return json.dumps(state_of(session)["raw_state"]["game_state"], sort_keys=True)

        found = []
        for turn in range(2):
            order = list(range(64))
            random.Random(turn).shuffle(order)
            with ThreadPoolExecutor(16) as pool:
                found.append(dict(zip(order, pool.map(start, order), strict=True)))
            for session in opened:
                session.close()
            opened.clear()
    assert found[0] == found[1]
    assert len(set(found[0].values())) >= distinct


def test_seeding_a_game_leaves_the_global_generator_alone() -> None:
    random.seed(5)
    expected = random.random()
    random.seed(5)
    games("Sudoku-v0").start(3)
    assert random.random() == expected
    boards = {str(games("Sudoku-v0").start(None).state.game_state["board"]) for _ in range(3)}
    assert len(boards) == 3


def test_64_sessions_share_one_dictionary_and_no_game() -> None:
    factory = games("Wordle-v0")
    started_s = time.perf_counter()
    started = [factory.start(seed) for seed in range(64)]
    assert time.perf_counter() - started_s < 0.5
    assert len({id(game.env.env.dictionary) for game in started}) == 1
    assert len({id(game.state) for game in started}) == 64
    started[0].step("[crane]")
    assert all(not game.state.game_state["guess_history"] for game in started[1:])


def test_steps_outside_of_a_game_are_errors() -> None:
    server = TextArenaServer(games("Wordle-v0"))
    with pytest.raises(ValueError, match="reset the environment before the first step"):
        server.step(TextArenaAction(message="[crane]"))
    assert server.state.raw_state == {}
    server.reset(seed=1)
    word = server.state.raw_state["game_state"]["secret_word"]
    assert server.step(TextArenaAction(message=f"[{word}]")).done
    with pytest.raises(ValueError, match="the game is over"):
        server.step(TextArenaAction(message="[crane]"))
    # A reset forgets the game before it.
    assert word not in server.reset(seed=2).messages[0].content
    assert server.state.step_count == 0


def test_reward_signals_are_the_official_ones() -> None:
    signals = WordleSignals()
    text = "\n[GAME] You submitted [crane].\nFeedback:\nC R A N E\nG Y X X G\nYou have 5 guesses left."
    expected = {"wordle.greens": 0.4, "wordle.yellows": 0.2, "wordle.repetitions": 1.0, "wordle.correct": 0.0}
    assert signals.after("[crane]", text, 0.0) == expected
    assert signals.after("Crane!", text, 0.0) == {**expected, "wordle.repetitions": 0.0}
    assert signals.after("no", "", 1.0) == {
        "wordle.greens": 0.0,
        "wordle.yellows": 0.0,
        "wordle.repetitions": 1.0,
        "wordle.correct": 1.0,
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [("65", 65), ("-1", -1), ("0.5", 0.5), ("true", True), ("False", False), ("apple", "apple"), ("", "")],
)
def test_keywords_become_numbers_where_they_look_like_it(text: str, value: Any) -> None:
    found = value_of(text)
    assert (found, type(found)) == (value, type(value))


def test_clues_are_set_by_a_variable() -> None:
    variables = {"TEXTARENA_ENV_ID": "Sudoku-v0-easy", "TEXTARENA_KW_CLUES": "66", "TEXTARENA_MAX_TURNS": "7"}
    settings = GameSettings.from_environment(KIND, variables)
    assert settings == GameSettings("Sudoku-v0-easy", 7, {"clues": 66})
    game = GameFactory(settings).start(1)
    assert sum(cell != 0 for row in game.state.game_state["board"] for cell in row) == 66
    assert game.state.max_turns == 7


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"TEXTARENA_ENV_ID": "Chess-v0"}, "TEXTARENA_ENV_ID='Chess-v0'"),
        ({"TEXTARENA_ENV_ID": "Sudoku-v0-train"}, "Sudoku-v0-easy"),
        ({"TEXTARENA_NUM_PLAYERS": "2"}, "one player"),
        ({"TEXTARENA_MAX_TURNS": "many"}, "TEXTARENA_MAX_TURNS must be a whole number"),
        ({"TEXTARENA_KW_CLUES": "16"}, "TEXTARENA_KW_CLUES must be a whole number from 17 to 80"),
        ({"TEXTARENA_KW_CLUES": "61.5"}, "TEXTARENA_KW_CLUES"),
        ({"TEXTARENA_KW_CLUES": "true"}, "TEXTARENA_KW_CLUES"),
    ],
)
def test_a_variable_that_asks_for_what_cannot_be_played_is_named(variables: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        GameSettings.from_environment(KIND, variables)
    assert named in str(caught.value)
    assert caught.value.hint


def test_an_argument_that_the_game_does_not_take_and_words_that_are_not_there_are_named() -> None:
    with pytest.raises(ConfigError, match="takes no cluess, only clues, max_turns"):
        games("Sudoku-v0", cluess=60)
    with pytest.raises(ConfigError, match="no secret words of 7 letters"):
        games("Wordle-v0-long")


def test_the_shipped_words_are_words_that_textarena_takes() -> None:
    secrets, words = shipped_words("en-basic"), shipped_words()
    assert len(secrets) > 300
    assert set(secrets) < set(words)
    assert all(len(word) == 5 and word.isascii() and word.islower() and word.isalpha() for word in words)
    # By its own dictionaries too, so that a server with NLTK's data takes them as well.
    dictionary = games("Wordle-v0").start(0).dictionary
    assert set(words) <= dictionary.us_words | dictionary.uk_words
    assert "crane" in textarena_words(5)


SERVE = (
    "import json\n"
    "from trl_envs.envs.textarena.games import GameFactory\n"
    "from trl_envs.envs.textarena.settings import GameSettings\n"
    "print(json.dumps(GameFactory(GameSettings('Wordle-v0', None, {})).start(1).word_list))\n"
)


def words_of_a_server(nltk_data: Path) -> list[str]:
    environment = {**os.environ, "NLTK_DATA": str(nltk_data), "HOME": str(nltk_data), "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run([sys.executable, "-c", SERVE], env=environment, capture_output=True, text=True, check=True)
    # NLTK reports each download that it tries.
    assert "nltk_data" not in done.stdout + done.stderr
    words: list[str] = json.loads(done.stdout)
    return words


def test_without_nltk_data_the_server_plays_with_the_shipped_words(tmp_path: Path) -> None:
    assert words_of_a_server(tmp_path) == list(shipped_words("en-basic"))


def test_nltk_data_that_is_there_is_used(tmp_path: Path) -> None:
    (tmp_path / "corpora" / "words").mkdir(parents=True)
    for name in ("en", "en-basic"):
        (tmp_path / "corpora" / "words" / name).write_text("zebra\nquick\nyacht\n")
    tagger = tmp_path / "taggers" / "averaged_perceptron_tagger_eng"
    tagger.mkdir(parents=True)
    tags = {"weights": {}, "tagdict": {"zebra": "NN", "quick": "JJ", "yacht": "NN"}, "classes": ["NN", "JJ"]}
    for name, content in tags.items():
        (tagger / f"averaged_perceptron_tagger_eng.{name}.json").write_text(json.dumps(content))
    assert words_of_a_server(tmp_path) == ["zebra", "yacht"]


def test_classes_terms_and_policies_load_neither_textarena_nor_a_server_nor_torch() -> None:
    names = [f"trl_envs.envs.{game}.{part}" for game in ("wordle", "sudoku") for part in ("rewards", "policies")]
    code = (
        f"import importlib, sys; [importlib.import_module(name) for name in {names}]\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules}"
        " & {'textarena', 'nltk', 'openenv', 'torch', 'fastapi', 'pydantic'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def reply(**observation: Any) -> Reply:
    return Reply(observation=observation, reward=0.0, done=False)


def test_a_reply_of_another_server_loses_the_episode() -> None:
    for observation in (
        {},
        {"messages": []},
        {"messages": [{}]},
        {"messages": [{"content": 3}]},
        {"info_state": [0.0]},
    ):
        with pytest.raises(SessionLost, match="not a textarena server"):
            Transcript(reply(**observation))
    transcript = Transcript(reply(messages=[{"content": "abc"}]))
    assert transcript.take(reply(messages=[{"content": "abcdef"}])) == "def"
    with pytest.raises(SessionLost, match="doesn't continue this game"):
        transcript.take(reply(messages=[{"content": "other"}]))
