"""GRPOTrainer with what an agent's run needs besides: sessions closed, episodes written down, time accounted for.

It relies on three methods of GRPOTrainer (TRL 1.16): `_generate_and_score_completions` plays and scores one generation
batch, `_generate` is the playing, `_calculate_rewards` the scoring; and on `self.environments`, the batch's instances.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from accelerate.utils import gather_object
from trl import GRPOTrainer

from trl_envs.agent.environments import EnvironmentClock, episode_of
from trl_envs.envs.episode import Episode
from trl_envs.envs.game import end_episode
from trl_envs.errors import TrainingFailed
from trl_envs.results.episodes import EpisodeWriter


class AgentTrainer(GRPOTrainer):  # type: ignore[misc]
    """GRPOTrainer for environments built by trl-env.

    Args:
        episodes: Where every played episode is written.
        clock: Counts the seconds spent in environments.
        attempt: Which attempt at the run this is; noted with each episode.
        max_lost_fraction: Share of a generation batch's episodes that may be lost.
        **arguments: GRPOTrainer's own.
    """

    def __init__(
        self,
        *,
        episodes: EpisodeWriter,
        clock: EnvironmentClock,
        attempt: int,
        max_lost_fraction: float,
        **arguments: Any,
    ) -> None:
        self._episodes = episodes
        self._clock = clock
        self._attempt = attempt
        self._max_lost_fraction = max_lost_fraction
        self._played: Counter[str] = Counter()
        self._scores: list[list[float]] = []
        super().__init__(**arguments)

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """Plays and scores one generation batch, and leaves no session open, however it ends."""
        self._clock.take()
        try:
            output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        finally:
            for environment in self.environments or ():
                end_episode(environment)
        mode = "train" if self.model.training else "eval"
        self._metrics[mode]["time/environment_s"].append(self._clock.take())
        self._record(mode, [episode_of(environment) for environment in self.environments])
        return output

    def _generate(self, prompts: list[Any]) -> Any:
        """The playing, its seconds split into the environment's and the model's."""
        before = self._clock.seconds
        started = time.perf_counter()
        result = super()._generate(prompts)
        in_environment = self._clock.seconds - before
        mode = "train" if self.model.training else "eval"
        self._metrics[mode]["time/generation_s"].append(time.perf_counter() - started - in_environment)
        return result

    def _calculate_rewards(
        self, inputs: Any, prompts: Sequence[Any], completions: Any, completion_ids_list: Any
    ) -> torch.Tensor:
        """The scoring; keeps this process's own values, shape (episodes, terms), NaN for unscored."""
        rewards: torch.Tensor = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        first = self.accelerator.process_index * len(prompts)
        self._scores = rewards[first : first + len(prompts)].tolist()
        return rewards

    def _record(self, mode: str, played: Sequence[Episode]) -> None:
        """Writes the episodes of this process down, and counts the lost ones of all.

        Raises:
            TrainingFailed: More of them were lost than `rollout.max_lost_fraction` allows.
        """
        group = self.num_generations if mode == "train" else self.num_generations_eval
        for index, (episode, scores) in enumerate(zip(played, self._scores, strict=True)):
            rewards = {
                name: None if score != score else score
                for name, score in zip(self.reward_func_names, scores, strict=True)
                if name.partition(".")[0] == episode.environment
            }
            self._episodes.write(
                {
                    "attempt": self._attempt,
                    "mode": mode,
                    "process": self.accelerator.process_index,
                    **episode.as_dict(),
                },
                step=self.state.global_step + 1,
                group=index // group,
                rewards=rewards,
            )
        reasons: Counter[str] = Counter(
            itertools.chain.from_iterable(gather_object([[e.lost for e in played if e.lost is not None]]))
        )
        total = len(played) * self.accelerator.num_processes
        self._played["played"] += total
        self._played["lost"] += reasons.total()
        if reasons.total() > self._max_lost_fraction * total:
            reason, count = reasons.most_common(1)[0]
            raise TrainingFailed(
                f"{reasons.total()} of {total} episodes of a generation batch were lost, {count} of them because "
                f"{reason}",
                "look at the environment server's log; rollout.max_lost_fraction="
                f"{self._max_lost_fraction:g} is the share that may be lost",
            )

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Adds the number of episodes played and lost since the last line of metrics."""
        if self._played["played"]:
            logs = {**logs, "episodes/played": self._played["played"], "episodes/lost": self._played["lost"]}
            self._played.clear()
        super().log(logs, start_time)
