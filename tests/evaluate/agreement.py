"""Whether two ways to generate say the same: wherever the model leaves no doubt, and only there, they have to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from trl_envs.evaluate.generation import Generator
from trl_envs.evaluate.loop import Rollout

# Of the two best tokens' log-probabilities: below it rounding decides.
DECIDED = 1e-3


class Doubting:
    """A `TurnSource` that notes, for each turn, how close the second best token came to the best.

    Args:
        source: Generates, greedily.
    """

    def __init__(self, source: Generator) -> None:
        self._source = source
        self.context_length = source.context_length
        self._gaps: dict[tuple[int, ...], float] = {}

    def turns(self, prefixes: Sequence[Sequence[int]], max_new_tokens: Sequence[int]) -> list[list[int]]:
        made = self._source.turns(prefixes, max_new_tokens)
        for prefix, turn in zip(prefixes, made, strict=True):
            self._gaps[tuple(prefix)] = self._smallest_gap(list(prefix), turn)
        return made

    def _smallest_gap(self, prefix: list[int], turn: list[int]) -> float:
        with torch.no_grad():
            logits = self._source._model(input_ids=torch.tensor([prefix + turn])).logits[0, len(prefix) - 1 : -1]
        best = torch.log_softmax(logits, dim=-1).topk(2, dim=-1).values
        return float((best[:, 0] - best[:, 1]).min())

    def decided_turns(self, rollout: Rollout) -> int:
        """Turns of an episode up to the first one in doubt."""
        whole, decided = rollout.prompt_ids + rollout.completion_ids, 0
        starts = sorted(len(key) for key in self._gaps if list(key) == whole[: len(key)])
        for start in starts:
            if self._gaps[tuple(whole[:start])] <= DECIDED:
                break
            decided += 1
        return decided


def first_turns(completion: Sequence[dict[str, Any]], number: int) -> list[dict[str, Any]]:
    """What was said and answered up to the end of so many turns of the model."""
    spoken, kept = 0, []
    for message in completion:
        spoken += message["role"] == "assistant"
        if spoken > number:
            break
        kept.append(message)
    return kept


def assert_agreement(doubting: Doubting, ours: Sequence[Rollout], theirs: Sequence[Rollout]) -> None:
    """The same words, calls, results and counts of tokens, as far as the model leaves no doubt."""
    whole = 0
    for one, other in zip(ours, theirs, strict=True):
        decided = doubting.decided_turns(one)
        assert first_turns(other.completion, decided) == first_turns(one.completion, decided)
        if decided == one.turns:
            whole += 1
            assert (other.end, other.tokens, other.tool_calls) == (one.end, one.tokens, one.tool_calls)
            assert other.tool_failures == one.tool_failures
    # Else nothing was compared.
    assert whole > len(ours) / 2
