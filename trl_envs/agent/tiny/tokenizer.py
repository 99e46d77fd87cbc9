"""The tiny agent's tokenizer: byte-level BPE over phrases, with Qwen3's special tokens and chat template.

Its file in `model/` is frozen: the weights know no other, and checkpoints of users' runs carry it. `build` reads it
and makes a new one only when told to.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import trl
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

VOCABULARY_SIZE = 1024
LONGEST_TOKEN_CHARACTERS = 48

# As in Qwen3's tokenizer: the first three are special (skipped when decoding for people), the others plain text.
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MARKUP = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")

# What becomes a piece of its own; the text in between may merge across words, so that a sentence that every turn
# repeats costs a few tokens. Alone stay what a game varies: argument values, digits, letters of a guess, empty cells.
PIECES = "|".join(
    (
        r"\n+",
        r" ?\d",
        r" ?[A-Z](?![a-z])",
        r"\[",
        r"[a-z](?=[a-z]*\])",
        r" ?\.(?= [.|\d]| *\n| *$)",
        r'(?<=": ")[^"\\\n\[\d]+(?=")',
    )
)


def chat_template() -> str:
    """TRL's own copy of Qwen3's chat template; TRL recognises a template by its exact text."""
    return (Path(trl.__file__).parent / "chat_templates" / "qwen3.jinja").read_text()


def train_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """Learns the vocabulary. The same texts give the same tokenizer.

    Args:
        texts: Rendered conversations; special tokens inside them are recognised.
    """
    tokenizer = Tokenizer(models.BPE(byte_fallback=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    added = [AddedToken(text, special=True, normalized=False) for text in SPECIAL]
    added += [AddedToken(text, special=False, normalized=False) for text in MARKUP]
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY_SIZE - len(MARKUP),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[token for token in added if token.special],
        max_token_length=LONGEST_TOKEN_CHARACTERS,
        show_progress=False,
    )
    markup = (*SPECIAL, *MARKUP)
    tokenizer.train_from_iterator((piece for text in texts for piece in _without(text, markup)), trainer)
    tokenizer.add_tokens([token for token in added if not token.special])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        clean_up_tokenization_spaces=False,
        padding_side="left",
        chat_template=chat_template(),
    )


def load_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """The tokenizer in a folder, without touching the network."""
    tokenizer: PreTrainedTokenizerFast = PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)
    return tokenizer


def _without(text: str, markup: tuple[str, ...]) -> list[str]:
    """The stretches between markup: a trainer that sees markup as text would spend merges on it."""
    pieces = [text]
    for token in markup:
        pieces = [part for piece in pieces for part in piece.split(token)]
    return [piece for piece in pieces if piece]
