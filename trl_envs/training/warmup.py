"""The warm-up worker, a child process: `python -m trl_envs.training.warmup RUN_DIR`.

It reads config.yaml and plan.json of the run directory, has TRL's SFTTrainer learn the games that the plan names, and
leaves the model and outcome.json. The tokens are those that GRPO would have come to: put together here rather than by
SFTTrainer, whose rendering leaves arguments of calls as texts, which not every chat template reads, and counts what
stands before a turn, such as an empty think block, among what the model has said.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trl_envs.config.grpo_fields import grpo_value
from trl_envs.config.schema import TrainConfig
from trl_envs.config.store import load_config
from trl_envs.errors import ConfigError, TrainingFailed, TrlEnvError
from trl_envs.paths import make_importable
from trl_envs.results.jsonlines import read_json_lines
from trl_envs.results.outcome import Outcome, write_outcome
from trl_envs.results.rundir import RunDirectory

if TYPE_CHECKING:
    from trl import SFTTrainer

    from trl_envs.agent.chat import ChatFormat

# A label that carries no loss.
IGNORED = -100
THOUGHTS = ("reasoning_content", "thinking")


def main(arguments: list[str]) -> int:
    """Warms the model of a run up; the exit code is the error's."""
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    parser = argparse.ArgumentParser(prog="python -m trl_envs.training.warmup")
    parser.add_argument("run_dir", type=Path)
    run = RunDirectory(parser.parse_args(arguments).run_dir)
    try:
        steps = learn(run)
        if int(os.environ.get("LOCAL_RANK", "0")) == 0:
            write_outcome(run, Outcome(global_step=steps))
        return 0
    except TrlEnvError as error:
        if error.__cause__ is not None:
            traceback.print_exception(error.__cause__)
        write_outcome(run, Outcome.of_error(error))
        return error.exit_code
    except Exception as error:
        traceback.print_exc()
        failed = TrainingFailed(f"{type(error).__name__}: {error}", f"the traceback is in {run.logs_dir}/trainer.log")
        write_outcome(run, Outcome.of_error(failed))
        return failed.exit_code


def learn(run: RunDirectory) -> int:
    """Learns and saves the final model.

    Args:
        run: The run's directory.

    Returns:
        The number of optimizer steps.

    Raises:
        ConfigError: A value of the config, a model or a game that can't be used.
        TrainingFailed: It ended without a step.
    """
    config = load_config(run.config_file)
    plan = json.loads(run.plan_file.read_text(encoding="utf-8"))
    make_importable(plan["import_folders"])
    games = [game for file in plan["data"] for game in read_json_lines(Path(file))]
    trainer = _build_trainer(run, config, plan, games)
    trainer.train()
    if trainer.state.global_step == 0:
        raise TrainingFailed("the warm-up ended at step 0", "collect more games, or set sft.max_steps=100")
    # The trainer turns the cache off in the configuration, and what is saved so generates slowly ever after.
    trainer.model.config.use_cache = True
    trainer.save_model(str(run.model_dir))
    return int(trainer.state.global_step)


def _build_trainer(
    run: RunDirectory, config: TrainConfig, plan: Mapping[str, Any], games: list[dict[str, Any]]
) -> SFTTrainer:
    from datasets import Dataset
    from transformers import PrinterCallback
    from transformers.utils.logging import disable_progress_bar
    from trl import SFTTrainer

    from trl_envs.agent.chat import ChatFormat
    from trl_envs.agent.models import load_model, load_tokenizer, unreachable
    from trl_envs.training.arguments import build_sft_arguments
    from trl_envs.training.callbacks import MetricsCallback, lora_config

    disable_progress_bar()
    arguments = build_sft_arguments(config, run.path, plan["sft"], plan["report_to"])
    chat = ChatFormat(load_tokenizer(config.model), grpo_value(config.grpo, "chat_template_kwargs") or {})
    try:
        # A tokenizer of its own: the one of the chat format has TRL's response template, which isn't to be saved.
        tokenizer = load_tokenizer(config.model)
        trainer = SFTTrainer(
            model=load_model(config.model),
            processing_class=tokenizer,
            args=arguments,
            train_dataset=Dataset.from_list(encoded(chat, games)),
            peft_config=lora_config(config.model),
            callbacks=[MetricsCallback(run.metrics_file)],
        )
    except OSError as error:
        raise unreachable(config.model.path, error) from error
    except ValueError as error:
        raise ConfigError(f"SFTTrainer refuses the run: {error}", "change the value that it names") from error
    # It would print every line of metrics a second time, between the launcher's own.
    trainer.remove_callback(PrinterCallback)
    return trainer


def encoded(chat: ChatFormat, games: Iterable[Mapping[str, Any]]) -> list[dict[str, list[int]]]:
    """The games as tokens, `input_ids` and `labels`: what the model didn't say itself carries no loss.

    Args:
        chat: Of the model and the recipe.
        games: As trl-env collects them. Where the recipe turns thinking off their thoughts are left out: GRPO wouldn't
            let the model have any.

    Raises:
        ConfigError: A game that is no such conversation.
    """
    thinks = chat.thinks()
    rows = []
    for number, game in enumerate(games, start=1):
        try:
            messages = [_message(message, thinks) for message in game["messages"]]
            ids, said = chat.conversation(messages, json.loads(game["tools"]))
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(
                f"game {number} of the data can't be learnt from: {type(error).__name__}: {error}",
                "collect games with trl-env collect, or write them in its format",
            ) from error
        labels = [token if own else IGNORED for token, own in zip(ids, said, strict=True)]
        rows.append({"input_ids": ids, "labels": labels})
    return rows


def _message(message: Mapping[str, Any], thinks: bool) -> dict[str, Any]:
    """A message of a file as the chat template takes it: arguments of calls as mappings."""
    kept = {name: value for name, value in message.items() if thinks or name not in THOUGHTS}
    if message.get("tool_calls"):
        kept["tool_calls"] = [_call(call) for call in message["tool_calls"]]
    return kept


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call["function"]
    arguments = function["arguments"]
    read = json.loads(arguments) if isinstance(arguments, str) else arguments
    return {"type": "function", "function": {"name": function["name"], "arguments": read}}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
