"""The warm-up's tokens: those that GRPOTrainer comes to in the same conversation, and loss on the model's own alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset
from transformers.utils import get_json_schema
from trl import GRPOConfig, SFTConfig, SFTTrainer

from tests.evaluate.playing import TINY, catch_config, catch_factory
from tests.evaluate.test_fidelity import ShownTrainer
from tests.loopback import serving
from trl_envs.agent.chat import ChatFormat
from trl_envs.agent.dataset import build_rows
from trl_envs.agent.models import load_tokenizer
from trl_envs.agent.terms import build_terms, reward_function
from trl_envs.config.model_location import model_location
from trl_envs.envs.game import end_episode
from trl_envs.errors import ConfigError
from trl_envs.evaluate.games import game_of
from trl_envs.evaluate.loop import Rollout
from trl_envs.evaluate.tools import bound_tools
from trl_envs.training.warmup import IGNORED, encoded

LEFT = '<tool_call>\n{"name": "move", "arguments": {"direction": "left"}}\n</tool_call>'
STAY = '<tool_call>\n{"name": "stay", "arguments": {}}\n</tool_call>'
ODD = '<tool_call>\n{"name": "move", "arguments": {"direction": "là \\"dort\\""}}\n</tool_call>'
THOUGHT = "<think>\nThe ball is to the left,\nso I go there.\n</think>\n\n"
NO_THOUGHT = "<think>\n\n</think>\n\n"
# What the model says in turn, as Qwen3 writes it; with thinking off the empty block is in the prompt already.
TURNS = {
    True: [THOUGHT + LEFT, NO_THOUGHT + STAY, THOUGHT + f"Both.\n{LEFT}\n{STAY}", NO_THOUGHT + ODD, THOUGHT + "Done."],
    False: [LEFT, STAY, f"Both.\n{LEFT}\n{STAY}", ODD, "Done."],
}


class ScriptedTrainer(ShownTrainer):
    """GRPOTrainer with a script in the place of the model's generating."""

    script: list[list[int]]

    def _generate_single_turn(self, prompt_ids: list[list[int]], *_: Any, **__: Any) -> Any:
        turn = self.script.pop(0)
        return [list(turn) for _ in prompt_ids], None


def played_by_trl(folder: Path, url: str, *, thinking: bool) -> tuple[ScriptedTrainer, dict[str, Any]]:
    """What GRPOTrainer makes of the script, and the first rollout as a collected game, read from JSON."""
    config = catch_config(**{"envs.catch.episodes": 2})
    kwargs = {"enable_thinking": thinking}
    trainer = ScriptedTrainer(
        model=model_location("tiny"),
        args=GRPOConfig(
            output_dir=str(folder),
            use_cpu=True,
            bf16=False,
            per_device_train_batch_size=2,
            num_generations=2,
            max_completion_length=4096,
            chat_template_kwargs=kwargs,
            report_to=[],
        ),
        train_dataset=Dataset.from_list(build_rows(config.envs)),
        reward_funcs=[reward_function(term) for term in build_terms(config.envs)],
        environment_factory={"catch": catch_factory(url)},
    )
    tokenizer = load_tokenizer(TINY)
    trainer.script = [tokenizer.encode(f"{turn}<|im_end|>") for turn in TURNS[thinking]]
    try:
        trainer._generate_and_score_completions([trainer.train_dataset[index] for index in range(2)])
    finally:
        for environment in trainer.environments:
            end_episode(environment)
    environment = trainer.environments[0]
    rollout = Rollout({}, environment, bound_tools(environment), end="no tool call")
    rollout.prompt, rollout.completion = trainer.shown_prompts[0], trainer.shown[3][0]
    game = game_of(rollout, get_json_schema, kwargs, thoughts=True)
    return trainer, json.loads(json.dumps(game))


@pytest.mark.parametrize("thinking", [True, False], ids=["thinking", "not thinking"])
def test_a_collected_game_is_token_for_token_what_grpo_renders(tmp_path: Path, thinking: bool) -> None:
    with serving("catch") as server:
        trainer, game = played_by_trl(tmp_path, server.url, thinking=thinking)
    prompt_ids, completion_ids, said_by_the_model = (part[0] for part in trainer.shown[:3])
    assert [message["role"] for message in game["messages"]] == [
        *("user", "assistant", "tool", "assistant", "tool", "assistant", "tool", "tool", "assistant", "tool"),
        "assistant",
    ]
    chat = ChatFormat(load_tokenizer(TINY), {"enable_thinking": thinking})
    [row] = encoded(chat, [game])
    assert row["input_ids"] == prompt_ids + completion_ids
    carries_loss = [label != IGNORED for label in row["labels"]]
    assert carries_loss == [False] * len(prompt_ids) + [bool(own) for own in said_by_the_model]
    # As it stands the file is one for TRL too; behind the last turn it puts a newline that no generation gets to see.
    theirs = rendered_by_sft_trainer(tmp_path, game)["input_ids"]
    assert theirs == row["input_ids"] + chat.tokenizer.encode("\n")


def rendered_by_sft_trainer(folder: Path, game: dict[str, Any]) -> dict[str, Any]:
    arguments = SFTConfig(
        output_dir=str(folder), assistant_only_loss=True, max_length=None, use_cpu=True, bf16=False, report_to=[]
    )
    trainer = SFTTrainer(
        model=model_location("tiny"),
        args=arguments,
        train_dataset=Dataset.from_list([game]),
        processing_class=load_tokenizer(TINY),
    )
    row: dict[str, Any] = trainer.train_dataset[0]
    return row


def game(*messages: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "Catch it."}, *messages], "tools": "[]"}


def call(arguments: Any, **more: Any) -> dict[str, Any]:
    called = {"type": "function", "function": {"name": "move", "arguments": arguments}}
    return {"role": "assistant", "content": "", **more, "tool_calls": [called]}


RESULT = {"role": "tool", "name": "move", "content": "The ball fell."}
DONE = {"role": "assistant", "content": "Done."}


def own_text(chat: ChatFormat, row: dict[str, list[int]]) -> str:
    text: str = chat.tokenizer.decode([label for label in row["labels"] if label != IGNORED])
    return text


def test_the_models_own_turns_carry_loss_and_nothing_else() -> None:
    chat = ChatFormat(load_tokenizer(TINY), {"enable_thinking": True})
    [row] = encoded(chat, [game(call('{"direction": "left"}', reasoning_content="Left."), RESULT, DONE)])
    assert own_text(chat, row) == (
        f"<think>\nLeft.\n</think>\n\n{LEFT}<|im_end|><think>\n\n</think>\n\nDone.<|im_end|>"
    )
    whole = chat.tokenizer.decode(row["input_ids"])
    assert "Catch it." in whole and "<tool_response>\nThe ball fell.\n</tool_response>" in whole
    assert all(label in (token, IGNORED) for token, label in zip(row["input_ids"], row["labels"], strict=True))


def test_where_thinking_is_off_thoughts_are_left_out() -> None:
    chat = ChatFormat(load_tokenizer(TINY), {"enable_thinking": False})
    rows = encoded(chat, [game(call("{}", **more), RESULT, DONE) for more in ({"reasoning_content": "Left."}, {})])
    assert rows[0] == rows[1]
    assert "think" not in own_text(chat, rows[0])


def test_a_template_that_takes_arguments_for_a_mapping_gets_one(tmp_path: Path) -> None:
    import trl

    tokenizer = load_tokenizer(TINY)
    tokenizer.chat_template = (Path(trl.__file__).parent / "chat_templates" / "qwen2_5.jinja").read_text()
    chat = ChatFormat(tokenizer, {})
    [row] = encoded(chat, [game(call('{"direction": "left"}'), RESULT, DONE)])
    assert own_text(chat, row) == f"{LEFT}<|im_end|>Done.<|im_end|>"


@pytest.mark.parametrize(
    "wrong",
    [
        game(call("{}"), DONE),
        game(call("{}"), RESULT),
        game(RESULT),
        game(call("no JSON"), RESULT, DONE),
        {"text": "x"},
    ],
    ids=["no result", "no last turn", "no turn", "no JSON", "no messages"],
)
def test_a_game_that_is_no_conversation_is_named(wrong: dict[str, Any]) -> None:
    chat = ChatFormat(load_tokenizer(TINY), {"enable_thinking": False})
    with pytest.raises(ConfigError, match="game 2 of the data can't be learnt from"):
        encoded(chat, [game(call("{}"), RESULT, DONE), wrong])
