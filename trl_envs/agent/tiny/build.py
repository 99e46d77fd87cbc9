"""Makes the tiny agent: `python -m trl_envs.agent.tiny.build`. Needs no network and a few minutes on two cores."""

from __future__ import annotations

import argparse
import json
import os
import random
from pathlib import Path
from typing import Any

# Before anything of Hugging Face is imported: nothing here may wait for a download or send telemetry.
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from trl_envs import paths
from trl_envs.agent.tiny.corpus import made_up_conversations
from trl_envs.agent.tiny.finetune import Lessons, Shape, new_model, teach
from trl_envs.agent.tiny.play import play_all
from trl_envs.agent.tiny.tokenizer import chat_template, load_tokenizer, train_tokenizer

SEED = 0
EPISODES = {"echo": 500, "catch": 900, "wordle": 500, "sudoku": 350}
# For the tokenizer alone, in about equal parts of text.
TOKENIZER_EPISODES = {"echo": 300, "catch": 150}
TOKENIZER_MADE_UP = 100


def render(conversation: dict[str, Any]) -> str:
    """A conversation as the chat template writes it."""
    tools = conversation["tools"]
    bare = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()), chat_template=chat_template())
    text: str = bare.apply_chat_template(
        conversation["messages"],
        tools=json.loads(tools) if isinstance(tools, str) else tools,
        tokenize=False,
        enable_thinking=False,
    )
    return text


def build_tokenizer(seed: int, episodes: dict[str, int], made_up: int) -> PreTrainedTokenizerFast:
    """A tokenizer for the text of all games.

    Args:
        seed: Decides the texts.
        episodes: Played episodes of each game.
        made_up: Number of transcripts of each game that has no environment yet.
    """
    rng = random.Random(seed)
    return train_tokenizer(render(one) for one in play_all(episodes, rng) + made_up_conversations(rng, made_up))


def build(folder: Path, episodes: dict[str, int], shape: Shape, lessons: Lessons, seed: int = SEED) -> None:
    """Plays, trains, and writes the weights beside the tokenizer that is in the folder.

    Args:
        folder: Holds the tokenizer; receives weights and configuration.
        episodes: Number of transcripts of each game.
        shape: Sizes of the model.
        lessons: How it is taught.
        seed: Decides the transcripts.
    """
    tokenizer = load_tokenizer(folder)
    rows = play_all(episodes, random.Random(seed))
    model = teach(new_model(shape, tokenizer, lessons.seed), tokenizer, rows, lessons)
    model.save_pretrained(folder)


def main() -> None:
    """Reads the command line and builds into the package, or into another folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=paths.tiny_model_dir(), help="folder with tokenizer.json")
    parser.add_argument(
        "--new-tokenizer",
        action="store_true",
        help="replace the frozen tokenizer too; models that were trained with the old one can't be continued then",
    )
    arguments = parser.parse_args()
    if arguments.new_tokenizer:
        build_tokenizer(SEED, TOKENIZER_EPISODES, TOKENIZER_MADE_UP).save_pretrained(arguments.output)
    build(arguments.output, EPISODES, Shape(), Lessons())
    size_mib = sum(file.stat().st_size for file in arguments.output.iterdir()) / 2**20
    print(f"wrote {arguments.output} ({size_mib:.1f} MiB)")


if __name__ == "__main__":
    main()
