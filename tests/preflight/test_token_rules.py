"""Limits against games of known length: which are errors, which are warnings, and what would fit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trl_envs.preflight.token_rules import Games, Limits, Spread, fitting_length, token_findings

SOLVER = Games("solver", 8, Spread(470, 480), Spread(4200, 4400), Spread(21, 21), first_turn=210)
RANDOM = Games("random", 8, Spread(470, 480), Spread(350, 590), Spread(2, 3), first_turn=190)
ROOMY = Limits(completion=16384, calls=None, positions=32768, vllm=None, thinking=0)


def found(limits: Limits, *, allow_cut: bool = False) -> list[tuple[str, str, str, str]]:
    findings = token_findings("sudoku", [SOLVER, RANDOM], limits, allow_cut=allow_cut)
    return [(finding.level, finding.key, finding.message, finding.hint) for finding in findings]


def test_what_has_room_is_not_mentioned() -> None:
    assert found(ROOMY) == []
    assert token_findings("sudoku", [], ROOMY, allow_cut=False) == []
    assert found(Limits(None, None, None, None, 0)) == []


@pytest.mark.parametrize(
    ("limits", "level", "key", "said", "hint"),
    [
        ({"completion": 256}, "error", "max_completion_length", "episodes of 4400 tokens (95th", "length=4864"),
        ({"completion": 4399}, "error", "max_completion_length", "8 games of the solver; median 4200", "length=4864"),
        ({"completion": 4400}, "warning", "max_completion_length", "may need 4840 tokens", "length=4864"),
        ({"completion": 5000, "thinking": 256}, "warning", "max_completion_length", "256 tokens of thoughts", "=10496"),
        ({"calls": 12}, "error", "max_tool_calling_iterations", "episodes of 21 tool calls", "iterations=23"),
        ({"positions": 4096}, "error", "max_completion_length", "more than the 4096", "another"),
        ({"positions": 8192}, "warning", "max_completion_length", "a prompt of 480 tokens and", "length=7712 or less"),
        ({"vllm": 4096}, "error", "vllm_max_model_length", "more than the 4096 that vLLM takes", "length=16864"),
        ({"vllm": 8192}, "warning", "vllm_max_model_length", "more than the 8192 that vLLM takes", "length=16864"),
    ],
)
def test_each_limit(limits: dict[str, int], level: str, key: str, said: str, hint: str) -> None:
    ((found_level, found_key, message, found_hint),) = found(replace(ROOMY, **limits))
    assert (found_level, found_key) == (level, f"grpo.{key}")
    assert message.startswith("sudoku: ") and said in message
    assert hint in found_hint or ("another" in hint and "model=" in found_hint)


def test_the_length_that_is_proposed_is_let_pass() -> None:
    for thinking in (0, 256):
        limits = replace(ROOMY, completion=256, thinking=thinking)
        fit = fitting_length([SOLVER, RANDOM], limits)
        assert found(replace(limits, completion=fit)) == []


def test_a_run_that_may_cut_episodes_is_warned_unless_nothing_fits() -> None:
    ((level, _, _, hint),) = found(replace(ROOMY, completion=256), allow_cut=True)
    assert level == "warning" and "rollout.allow_cut_episodes=true" in hint
    ((level, _, message, _),) = found(replace(ROOMY, completion=189), allow_cut=True)
    assert level == "error" and "a single tool call with its result takes 190 tokens" in message


def test_percentiles_are_those_of_the_nearest_rank() -> None:
    assert Spread.of([5]) == Spread(5, 5)
    assert Spread.of(list(range(1, 101))) == Spread(50, 95)
