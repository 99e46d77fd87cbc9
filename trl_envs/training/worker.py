"""The training worker, a child process: `python -m trl_envs.training.worker RUN_DIR [--resume CHECKPOINT] [--hold]`.

It reads config.yaml and plan.json of the run directory, trains, and leaves outcome.json for the launcher. What the
recipe names is imported and checked before torch is, so that a typo costs a second.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trl_envs.agent.clock import EnvironmentClock
from trl_envs.agent.dataset import build_mixed_rows, build_rows
from trl_envs.agent.environments import build_factories
from trl_envs.agent.terms import RewardTerm, build_terms, reward_function
from trl_envs.config.schema import TrainConfig
from trl_envs.config.store import load_config
from trl_envs.config.token import token_for
from trl_envs.errors import ConfigError, TrainingFailed, TrlEnvError
from trl_envs.paths import make_importable
from trl_envs.results.headstart import HOLD, wait_for_go
from trl_envs.results.outcome import Outcome, write_outcome
from trl_envs.results.rundir import RunDirectory
from trl_envs.rollout.concurrent import ConcurrentCalls

if TYPE_CHECKING:
    from trl_envs.training.trainer import AgentTrainer


def main(arguments: list[str]) -> int:
    """Trains the run in the directory that the arguments name; the exit code is the error's."""
    # What TRL calls on transformers is for the two of them to agree on; a person who trains can't act on it.
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    parser = argparse.ArgumentParser(prog="python -m trl_envs.training.worker")
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--resume", metavar="CHECKPOINT", help="folder of the checkpoint from which to go on")
    parser.add_argument("--attempt", type=int, default=1, help="which attempt at this run this is")
    parser.add_argument(HOLD, action="store_true", help="import everything, then wait for the launcher's go")
    options = parser.parse_args(arguments)
    run = RunDirectory(options.run_dir)
    try:
        steps = train(run, checkpoint=options.resume, attempt=options.attempt, hold=options.hold)
        # Of each machine's processes one speaks to the launcher there.
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


def train(run: RunDirectory, *, checkpoint: str | None, attempt: int, hold: bool = False) -> int:
    """Trains and saves the final model.

    Args:
        run: The run's directory.
        checkpoint: Folder of the checkpoint from which to go on; None starts anew.
        attempt: Which attempt at this run this is; noted with each episode.

    Returns:
        The number of optimizer steps.

    Raises:
        ConfigError: A name or a value of the config that can't be used.
        TrainingFailed: Training broke off, or ended without a step.
    """
    config = load_config(run.config_file)
    plan = json.loads(run.plan_file.read_text(encoding="utf-8"))
    make_importable(plan["import_folders"])
    terms = build_terms(config.envs)
    clock, servers = EnvironmentClock(), plan["environments"]
    workers = config.rollout.concurrency or max(plan["batch"]["per_process"], plan["batch"]["evaluation"])
    calls = ConcurrentCalls(workers) if workers > 1 else None
    factories = build_factories(
        config.envs,
        {name: tuple(server["urls"]) for name, server in servers.items()},
        config.rollout,
        {name: token_for(config.server) if server["token"] else None for name, server in servers.items()},
        clock,
        calls,
    )
    trainer = _build_trainer(run, config, plan, _Playing(terms, factories, clock, calls, attempt), hold=hold)
    trainer.train(resume_from_checkpoint=checkpoint)
    if trainer.state.global_step == 0:
        raise TrainingFailed(
            "training ended at step 0: the data set has fewer prompts than one generation batch takes",
            f"raise envs.{next(iter(config.envs))}.episodes, or make the generation batch smaller",
        )
    trainer.save_model(str(run.model_dir))
    return int(trainer.state.global_step)


@dataclass(frozen=True)
class _Playing:
    """What a run plays with, built before torch is loaded; names as in AgentTrainer."""

    terms: list[RewardTerm]
    factories: dict[str, Any]
    clock: EnvironmentClock
    calls: ConcurrentCalls | None
    attempt: int


def _build_trainer(
    run: RunDirectory, config: TrainConfig, plan: dict[str, Any], playing: _Playing, *, hold: bool
) -> AgentTrainer:
    from datasets import Dataset
    from transformers import PrinterCallback
    from transformers.utils.logging import disable_progress_bar

    from trl_envs.agent.models import load_model, load_tokenizer, unreachable
    from trl_envs.results.episodes import EpisodeWriter
    from trl_envs.training.arguments import build_arguments
    from trl_envs.training.callbacks import MetricsCallback, lora_config
    from trl_envs.training.trainer import AgentTrainer
    from trl_envs.training.turns import why_not_concurrent

    if hold:
        wait_for_go(run)
    unforeseen = why_not_concurrent() if playing.calls is not None else ""
    if unforeseen:
        warnings.warn(f"rollouts are played one after the other: {unforeseen}", stacklevel=2)
    logging.getLogger("trl.trainer.grpo_trainer").addFilter(_says_something_new)
    # Bars over weights take a moment and would be cut into lines between the launcher's; downloads keep theirs.
    disable_progress_bar()
    arguments = build_arguments(config, run.path, playing.terms, plan["grpo"], plan["report_to"])
    # Shuffled, the shares of a mix would be kept on average only.
    arguments.shuffle_dataset = arguments.shuffle_dataset and plan["mix"] is None
    tokenizer = load_tokenizer(config.model)
    try:
        trainer = AgentTrainer(
            model=load_model(config.model),
            processing_class=tokenizer,
            reward_funcs=[reward_function(term) for term in playing.terms],
            args=arguments,
            train_dataset=Dataset.from_list(_rows(config, plan["mix"])),
            environment_factory=playing.factories,
            peft_config=lora_config(config.model),
            callbacks=[MetricsCallback(run.metrics_file)],
            episodes=EpisodeWriter(run.episodes_file),
            clock=playing.clock,
            calls=None if unforeseen else playing.calls,
            attempt=playing.attempt,
            max_lost_fraction=config.rollout.max_lost_fraction,
        )
    except OSError as error:
        raise unreachable(config.model.path, error) from error
    except ValueError as error:
        raise ConfigError(f"GRPOTrainer refuses the run: {error}", "change the value that it names") from error
    # It would print every line of metrics a second time, between the launcher's own.
    trainer.remove_callback(PrinterCallback)
    return trainer


def _says_something_new(record: logging.LogRecord) -> bool:
    """All but TRL's warning of an episode without rewards, with all that belongs to it: lost ones are counted."""
    return "All reward functions returned None" not in str(record.msg)


def _rows(config: TrainConfig, mix: dict[str, int] | None) -> list[dict[str, Any]]:
    return build_rows(config.envs) if mix is None else build_mixed_rows(config.envs, mix, config.seed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
