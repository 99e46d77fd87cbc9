"""The tiny agent that ships: what it is, that TRL knows its template, and that it plays its games through tools."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import trl
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from trl.chat_template_utils import add_response_schema, get_training_chat_template, supports_tool_calling

from tests.agent.playing import THINKING_OFF, play, prompt_ids, tool_suffix_ids
from tests.loopback import serving
from trl_envs import paths
from trl_envs.agent.tiny import corpus
from trl_envs.agent.tiny.build import build, build_tokenizer
from trl_envs.agent.tiny.finetune import Lessons, Shape
from trl_envs.agent.tiny.play import embedded_server, play_all
from trl_envs.agent.tiny.players import PLAYERS
from trl_envs.envs.catch import CatchEnv
from trl_envs.envs.echo import EchoEnv
from trl_envs.envs.echo.rewards import length
from trl_envs.rollout.session import SessionOpener

MODEL = paths.tiny_model_dir()
# Frozen: weights and users' checkpoints know these tokens and no others.
TOKENIZER_SHA256 = "f304d5547e151182805faf2a2a2fc99248a2cc67c583f7e5a283076c79097b50"
SAMPLED = {"do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0}


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(MODEL, local_files_only=True)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """A model of this size gains nothing from a second thread, and loses when another process has that core."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    return AutoModelForCausalLM.from_pretrained(MODEL, local_files_only=True).eval()


def test_it_is_small(model: PreTrainedModel) -> None:
    assert model.config.architectures == ["Qwen3ForCausalLM"]
    assert model.config.use_cache
    assert 500_000 < model.num_parameters() < 1_500_000
    assert sum(file.stat().st_size for file in MODEL.iterdir()) < 5e6


def test_trl_knows_its_chat_template(tokenizer: PreTrainedTokenizerBase) -> None:
    assert tokenizer.chat_template == (Path(trl.__file__).parent / "chat_templates" / "qwen3.jinja").read_text()
    assert supports_tool_calling(tokenizer)
    add_response_schema(tokenizer)
    assert "{% generation %}" in get_training_chat_template(tokenizer).replace("{%- ", "{% ")


def test_the_tokenizer_is_frozen_and_has_qwens_tokens(
    tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel
) -> None:
    assert hashlib.sha256((MODEL / "tokenizer.json").read_bytes()).hexdigest() == TOKENIZER_SHA256
    assert (tokenizer.eos_token, tokenizer.pad_token) == ("<|im_end|>", "<|endoftext|>")
    assert model.config.eos_token_id == tokenizer.eos_token_id
    assert len(tokenizer) == model.config.vocab_size == 1024
    for text in ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"):
        ids = tokenizer.encode(text)
        assert len(ids) == 1
        # TRL reads tool calls out of text decoded without special tokens.
        assert tokenizer.decode(ids, skip_special_tokens=True) == text


def test_any_text_survives_the_tokenizer(tokenizer: PreTrainedTokenizerBase) -> None:
    rng = random.Random(0)
    texts = [
        "",
        " ",
        "\n \n\n",
        "a  b\t\r\n",
        "Grüße, 世界 🎈👩‍👩‍👧",
        "C R A N E\nG X Y X X",
        '{"a": "b\\"c\\\\"}',
        "\x00\x7f\uffff",
    ]
    texts += [
        "".join(chr(rng.choice((rng.randrange(0xD800), rng.randrange(0xE000, 0x110000)))) for _ in range(50))
        for _ in range(50)
    ]
    for text in texts:
        assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("game", ["echo", "catch", "wordle", "sudoku"])
def test_what_it_was_taught_is_token_for_token_what_grpo_shows_it(
    game: str, tokenizer: PreTrainedTokenizerBase
) -> None:
    row = play_all({game: 3}, random.Random(0))[-1]
    messages, tools = row["messages"], json.loads(row["tools"])
    taught = tokenizer.apply_chat_template(
        messages,
        tools=tools,
        chat_template=get_training_chat_template(tokenizer),
        return_dict=False,
        **THINKING_OFF,
    )
    shown = prompt_ids(tokenizer, messages[:1], tools)
    for message in messages[1:]:
        if message["role"] == "tool":
            shown += tool_suffix_ids(tokenizer, [message])
        else:
            said = message["content"]
            for call in message.get("tool_calls", []):
                name, arguments = call["function"]["name"], call["function"]["arguments"]
                said += f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'
            shown += tokenizer.encode(said + "<|im_end|>")
    # Behind the last message stands a newline that no generation gets to see.
    assert taught == shown + tokenizer.encode("\n")


def test_sampled_catch_is_played_to_the_end_and_is_mediocre(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> None:
    torch.manual_seed(0)
    with serving("catch", sessions=24) as server:
        open_session = SessionOpener([server.url])
        played = play(
            model, tokenizer, "catch", [CatchEnv(open_session) for _ in range(24)], list(range(24)), **SAMPLED
        )
    calls = sum(one.calls for one in played)
    assert sum(one.failures for one in played) < 0.05 * calls
    assert calls > 8 * len(played)
    assert all(one.calls for one in played)
    assert sum(one.episode.done for one in played) >= 22
    assert 0.15 < sum(one.episode.facts["caught"] for one in played) / len(played) < 0.85
    assert max(one.completion_tokens for one in played) < 512
    assert {event.arguments.get("direction", "stay") for one in played for event in one.episode.events} >= {
        "left",
        "right",
        "stay",
    }


def test_sampled_echoes_differ_in_length(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    torch.manual_seed(0)
    with serving("echo", sessions=40) as server:
        open_session = SessionOpener([server.url])
        played = play(model, tokenizer, "echo", [EchoEnv(open_session) for _ in range(40)], list(range(40)), **SAMPLED)
    calls = sum(one.calls for one in played)
    assert sum(one.failures for one in played) < 0.05 * calls
    assert calls >= len(played)
    rewards = torch.tensor([length(one.episode) for one in played])
    assert rewards.std() > 0.3
    assert max(one.completion_tokens for one in played) < 512


@pytest.mark.parametrize("game", ["wordle", "sudoku"])
def test_sampled_play_of_textarena_calls_the_tool_validly(
    game: str, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> None:
    torch.manual_seed(0)
    with embedded_server(f"trl_envs.envs.{game}.server:app") as url:
        open_session = SessionOpener([url])
        environments = [PLAYERS[game].environment(open_session) for _ in range(8)]
        played = play(model, tokenizer, game, environments, list(range(8)), **SAMPLED)
    calls = sum(one.calls for one in played)
    assert sum(one.failures for one in played) < 0.05 * calls
    assert all(one.calls for one in played)
    assert not any(one.episode.lost for one in played)
    events = [event for one in played for event in one.episode.events]
    if game == "wordle":
        assert {tuple(event.arguments) for event in events} == {("guess",)}
        # Words, most of them taken by the game.
        assert sum(one.episode.facts["guesses"] for one in played) > 0.7 * calls
    else:
        assert {tuple(event.arguments) for event in events} == {("row", "column", "number")}
        assert sum(one.episode.facts["on_empty"] for one in played) > 0


def test_building_is_deterministic(tmp_path: Path) -> None:
    shape = Shape(hidden=32, layers=1, intermediate=32, heads=2, key_value_heads=1)
    weights = []
    for name in ("one", "two"):
        folder = tmp_path / name
        build_tokenizer(0, {"echo": 4, "catch": 4}, 2).save_pretrained(folder)
        build(folder, {"echo": 4, "catch": 4}, shape, Lessons(epochs=1, batch_size=4))
        weights.append([(folder / file).read_bytes() for file in ("tokenizer.json", "model.safetensors")])
    assert weights[0] == weights[1]


def test_transcripts_keep_arguments_as_json_and_end_with_a_message() -> None:
    for row in play_all({"echo": 2, "catch": 2, "wordle": 2, "sudoku": 2}, random.Random(1)):
        messages = row["messages"]
        calls = [call["function"] for message in messages for call in message.get("tool_calls", [])]
        assert calls
        assert all(isinstance(json.loads(call["arguments"]), dict) for call in calls)
        assert messages[-1] == {"role": "assistant", "content": "Done."}


@pytest.mark.parametrize("make", [corpus.wordle_game, corpus.sudoku_game])
def test_made_up_games_alternate_calls_and_answers(make: Any) -> None:
    messages = make(random.Random(0))
    assert [message["role"] for message in messages[:3]] == ["user", "assistant", "tool"]
    assert messages[-1]["content"] == "Done."
