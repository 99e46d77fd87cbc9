"""GRPOTrainer with what an agent's run needs besides: sessions closed, episodes written down, time accounted for.

It relies on four methods of GRPOTrainer (TRL 1.16): `_generate_and_score_completions` plays and scores one generation
batch, `_generate` is the playing, `_tool_call_loop` the part of it behind the first turn, `_calculate_rewards` the
scoring; and on `self.environments`, the batch's instances.
"""

from __future__ import annotations

import itertools
import json
import time
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
from accelerate.utils import gather_object
from trl import GRPOTrainer

from trl_envs.agent.clock import EnvironmentClock
from trl_envs.agent.environments import episode_of
from trl_envs.agent.groups import differing_games
from trl_envs.envs.episode import Episode
from trl_envs.envs.game import end_episode
from trl_envs.errors import TrainingFailed
from trl_envs.results.episodes import EpisodeWriter
from trl_envs.rollout.concurrent import ConcurrentCalls
from trl_envs.training.turns import coming_resets, coming_turns


class AgentTrainer(GRPOTrainer):  # type: ignore[misc]
    """GRPOTrainer for environments built by trl-env.

    Args:
        episodes: Where every played episode is written.
        clock: Counts the seconds spent in environments.
        calls: Makes the environments' calls at the same time; None leaves them in TRL's order.
        attempt: Which attempt at the run this is; noted with each episode.
        max_lost_fraction: Share of a generation batch's episodes that may be lost.
        **arguments: GRPOTrainer's own.
    """

    def __init__(
        self,
        *,
        episodes: EpisodeWriter,
        clock: EnvironmentClock,
        calls: ConcurrentCalls | None,
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
        self._calls = calls
        self._optimized_s = 0.0
        self._logged_step = 0
        super().__init__(**arguments)
        if calls is not None:
            calls.loop = lambda: self.async_loop

    def training_step(self, *arguments: Any, **keywords: Any) -> torch.Tensor:
        """One micro-batch; its seconds but for those of playing and scoring are the optimizer's."""
        started_s, self._played_s = time.perf_counter(), 0.0
        loss: torch.Tensor = super().training_step(*arguments, **keywords)
        self._optimized_s += time.perf_counter() - started_s - self._played_s
        return loss

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """Plays and scores one generation batch, and leaves no session open, however it ends."""
        started_s = time.perf_counter()
        self._clock.take()
        with self._calls or nullcontext():
            if self._calls is not None:
                self._calls.expect(lambda: coming_resets(self.environments, inputs))
            try:
                output: dict[str, Any] = super()._generate_and_score_completions(inputs)
            finally:
                self._end_episodes()
        if self._calls is not None and self._calls.problem:
            raise TrainingFailed(
                f"TRL calls environments in another way than trl-env knows: {self._calls.problem}",
                "set rollout.concurrency=1, which leaves the order to TRL, and report it",
            )
        mode = "train" if self.model.training else "eval"
        self._log_times(mode)
        self._record(mode, [episode_of(environment) for environment in self.environments])
        self._played_s = time.perf_counter() - started_s
        return output

    def _tool_call_loop(self, prompts: Any, prompt_ids: Any, completion_ids: Any, completions: Any, *more: Any) -> Any:
        """Plays on behind the first turn; appends to `completions`, a list of messages for each rollout."""
        if self._calls is not None:
            self._calls.expect(coming_turns(self.environments, completions))
        result = super()._tool_call_loop(prompts, prompt_ids, completion_ids, completions, *more)
        if self._calls is not None:
            self._calls.settle()
        return result

    def _end_episodes(self) -> None:
        """Closes the sessions that are still open, each of which takes a round trip."""
        environments = self.environments or ()
        if self._calls is not None:
            self._calls.each(end_episode, environments)
            return
        for environment in environments:
            end_episode(environment)

    def _log_times(self, mode: str) -> None:
        times, metrics = self._clock.take(), self._metrics[mode]
        metrics["time/environment_s"].append(times.waited_s)
        metrics["time/reset_s"].append(times.reset_s)
        metrics["time/tools_s"].append(times.tools_s)
        metrics["environment/slowest_call_s"].append(times.slowest_s)
        metrics["environment/calls_per_s"].append(times.calls / times.waited_s if times.waited_s else 0.0)

    def _generate(self, prompts: list[Any]) -> Any:
        """The playing, its seconds split into the environment's and the model's."""
        before = self._clock.waited_s
        started = time.perf_counter()
        result = super()._generate(prompts)
        in_environment = self._clock.waited_s - before
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
        self._metrics[mode]["groups/differing_games"].append(differing_games(played, group))
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
        """Adds the episodes played and lost and the optimizer's seconds a step since the last line of metrics."""
        if self._played["played"]:
            logs = {**logs, "episodes/played": self._played["played"], "episodes/lost": self._played["lost"]}
            self._played.clear()
        steps = self.state.global_step - self._logged_step
        if self._optimized_s and steps > 0:
            logs = {**logs, "time/optimization_s": self._optimized_s / steps}
            self._optimized_s, self._logged_step = 0.0, self.state.global_step
        # A table has one type a column: models write {"row": 1} and {"row": "one"}, and {} alone has no type at all.
        completions = self._logs["completion"]
        self._logs["completion"] = deque(map(_tabular, completions), maxlen=completions.maxlen)
        super().log(logs, start_time)


def _tabular(messages: Any) -> Any:
    """A completion as TRL's table of them can hold it: the arguments of tool calls as JSON."""
    if not isinstance(messages, list):
        return messages
    return [{**one, "tool_calls": _as_text(one["tool_calls"])} if one.get("tool_calls") else one for one in messages]


def _as_text(calls: Any) -> list[dict[str, Any]]:
    texts = []
    for call in calls:
        function = call.get("function") or {}
        arguments = function.get("arguments")
        said = arguments if isinstance(arguments, str) else json.dumps(arguments)
        texts.append({**call, "function": {**function, "arguments": said}})
    return texts
