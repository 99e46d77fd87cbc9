"""The loop against the real thing: GRPOTrainer plays the same episodes, and every token must be the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from tests.evaluate.playing import NO_THINKING, catch_config, catch_factory, player
from tests.loopback import serving
from trl_envs.agent.dataset import build_rows
from trl_envs.agent.terms import build_terms, reward_function
from trl_envs.config.model_location import model_location
from trl_envs.envs.game import end_episode
from trl_envs.evaluate.batches import play_rows
from trl_envs.evaluate.loop import Limits
from trl_envs.evaluate.sampling import Sampling

EPISODES = 6


class ShownTrainer(GRPOTrainer):  # type: ignore[misc]
    """Keeps what was played."""

    def _generate(self, prompts: list[Any]) -> Any:
        self.shown_prompts = prompts
        self.shown = super()._generate(prompts)
        return self.shown

    def _calculate_rewards(self, *args: Any) -> Any:
        self.shown_rewards = super()._calculate_rewards(*args)
        return self.shown_rewards


def played_by_trl(folder: Path, rows: list[dict[str, Any]], url: str, limits: Limits) -> ShownTrainer:
    """One batch, greedy, each row once: two rows a group, which only the advantages would notice."""
    arguments = GRPOConfig(
        output_dir=str(folder),
        use_cpu=True,
        bf16=False,
        per_device_train_batch_size=EPISODES,
        num_generations=2,
        max_completion_length=limits.max_completion_length,
        max_tool_calling_iterations=limits.max_tool_calling_iterations,
        chat_template_kwargs=NO_THINKING,
        generation_kwargs={"do_sample": False},
        report_to=[],
    )
    trainer = ShownTrainer(
        model=model_location("tiny"),
        args=arguments,
        train_dataset=Dataset.from_list(rows),
        reward_funcs=[reward_function(term) for term in build_terms(catch_config().envs)],
        environment_factory={"catch": catch_factory(url)},
    )
    try:
        trainer._generate_and_score_completions([trainer.train_dataset[index] for index in range(EPISODES)])
    finally:
        for environment in trainer.environments:
            end_episode(environment)
    return trainer


@pytest.mark.parametrize(
    "limits",
    [Limits(1024, 12), Limits(1024, 3), Limits(150, None), Limits(24, 12), Limits(5, 12)],
    ids=["whole games", "three rounds", "budget within the game", "budget of one turn", "budget within a turn"],
)
def test_greedy_play_is_that_of_grpo_trainer_token_for_token(tmp_path: Path, limits: Limits) -> None:
    config = catch_config(**{"envs.catch.episodes": EPISODES})
    rows = build_rows(config.envs)
    with serving("catch", sessions=2 * EPISODES) as server:
        trainer = played_by_trl(tmp_path, rows, server.url, limits)
        with player(Sampling(temperature=0), limits) as ours:
            (batch,) = play_rows(ours, catch_factory(server.url), build_terms(config.envs), rows, EPISODES)
    prompt_ids, completion_ids, _, completions = trainer.shown[:4]
    rollouts = [one.rollout for one in batch]
    assert [rollout.prompt for rollout in rollouts] == trainer.shown_prompts
    assert [rollout.prompt_ids for rollout in rollouts] == prompt_ids
    assert [rollout.completion_ids for rollout in rollouts] == completion_ids
    assert [rollout.completion for rollout in rollouts] == completions
    assert [one.rewards["catch.caught"] for one in batch] == trainer.shown_rewards[:, 0].tolist()
    frequency = trainer._metrics["eval"]["tools/call_frequency"][-1]
    assert sum(rollout.tool_calls for rollout in rollouts) == round(frequency * EPISODES)
