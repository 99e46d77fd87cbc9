"""The tiny agent's weights: a small Qwen3 from nothing, taught by TRL's SFTTrainer."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from typing import Any

import torch
from datasets import Dataset
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM, set_seed
from trl import SFTConfig, SFTTrainer

# Sums over threads depend on how many there are, and with them the last bits of the weights; and matrices of this size
# gain little from a second thread, and lose when something else runs on that core.
THREADS = 1


@dataclass(frozen=True)
class Shape:
    """Sizes of the model.

    Args:
        hidden: Width of the residual stream.
        layers: Number of transformer blocks.
        intermediate: Width of the feed-forward layers.
        heads: Attention heads.
        key_value_heads: Heads of keys and values, each shared by heads / key_value_heads.
        context_tokens: Longest sequence; positions are rotary, so it costs nothing.
    """

    hidden: int = 128
    layers: int = 3
    intermediate: int = 384
    heads: int = 4
    key_value_heads: int = 2
    context_tokens: int = 8192


@dataclass(frozen=True)
class Lessons:
    """How the model is taught.

    Args:
        epochs: Passes over the transcripts.
        learning_rate: Of AdamW, with a short warm-up and a cosine to zero.
        batch_size: Transcripts a step.
        sharpness: Factor on the logits once training is over, see `sharpen`.
        seed: Of the first weights and of the order of the transcripts.
    """

    epochs: float = 2.5
    learning_rate: float = 2e-3
    batch_size: int = 4
    sharpness: float = 1.4
    seed: int = 0


def new_model(shape: Shape, tokenizer: PreTrainedTokenizerFast, seed: int) -> Qwen3ForCausalLM:
    """A model with random weights, in float32."""
    set_seed(seed)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        intermediate_size=shape.intermediate,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.key_value_heads,
        head_dim=shape.hidden // shape.heads,
        max_position_embeddings=shape.context_tokens,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        dtype="float32",
    )
    return Qwen3ForCausalLM(config)


def teach(
    model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, rows: list[dict[str, Any]], lessons: Lessons
) -> Qwen3ForCausalLM:
    """Trains on what the assistant says in the transcripts. On one machine, the same input gives the same bytes.

    Args:
        model: Trained in place.
        tokenizer: Its tokenizer.
        rows: Conversations, as `play.conversation` makes them.
        lessons: How.

    Returns:
        The model.
    """
    torch.set_num_threads(THREADS)
    with tempfile.TemporaryDirectory() as scratch:
        arguments = SFTConfig(
            output_dir=scratch,
            assistant_only_loss=True,
            num_train_epochs=lessons.epochs,
            learning_rate=lessons.learning_rate,
            lr_scheduler_type="cosine",
            warmup_steps=40,
            adam_beta2=0.98,
            # One by one: games of echo and of sudoku differ tenfold in length, and most of a batch would be padding.
            per_device_train_batch_size=1,
            gradient_accumulation_steps=lessons.batch_size,
            max_length=None,
            seed=lessons.seed,
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            logging_steps=50,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
        )
        trainer = SFTTrainer(
            model=model, args=arguments, train_dataset=Dataset.from_list(rows), processing_class=tokenizer
        )
        trainer.train()
    # The trainer turns the cache off in the configuration, and what is saved so generates slowly ever after.
    model.config.use_cache = True
    sharpen(model, lessons.sharpness)
    return model


def sharpen(model: Qwen3ForCausalLM, factor: float) -> None:
    """Multiplies the logits, by way of the gain of the last norm: temperature 1 becomes what 1 / factor was.

    So short a training leaves every token a little probability, and a turn of a dozen tokens adds it up to a malformed
    call now and then. The moves get more decided as well, which the transcripts make up for with more noise.
    """
    with torch.no_grad():
        model.model.norm.weight.mul_(factor)
