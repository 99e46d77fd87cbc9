"""The tiny agent: a Qwen3-architecture model of about a million parameters that plays echo and, badly, catch.

It exists so that tests, smoke runs and demos go through the same tokenizer, chat template, tool calls and GRPO steps as
a real model, on a CPU and without a download. `model/` holds what ships; the other modules make it:

    corpus, play -> tokenizer        texts of the five games; frozen, see `tokenizer`
    play -> finetune -> model/       scripted play through the real environments, then TRL's SFTTrainer
"""
