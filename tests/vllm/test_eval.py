"""`trl-env eval` by a real vLLM: behind --base-url and in the evaluation's own process, against transformers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from transformers.utils import get_json_schema

from tests.evaluate.agreement import Doubting, assert_agreement
from tests.evaluate.playing import NO_THINKING, TINY, player
from tests.evaluate.test_endpoint import GREEDY, played, remote
from tests.loopback import serving
from tests.vllm.test_server import TOOLS, stage
from trl_envs.agent.chat import ChatFormat, Message
from trl_envs.agent.models import load_tokenizer
from trl_envs.config.model_location import model_location
from trl_envs.errors import ConfigError
from trl_envs.evaluate.batches import ScoredEpisode
from trl_envs.evaluate.loop import Player

pytestmark = pytest.mark.vllm

EPISODES = 8


class AsShownByVllm(ChatFormat):
    """The prompt as vLLM renders it: its API has no field for what a tool returns, and drops it."""

    def prompt_ids(self, messages: Sequence[Message], tools: Sequence[Any]) -> list[int]:
        schemas = [get_json_schema(tool) for tool in tools]
        for schema in schemas:
            assert schema["function"].pop("return")
        return super().prompt_ids(messages, schemas)


@contextmanager
def transformers_play(
    games: str, chat: type[ChatFormat] = ChatFormat
) -> Iterator[tuple[Player, Doubting, list[ScoredEpisode]]]:
    with player(GREEDY) as here:
        doubting = Doubting(here.source)  # type: ignore[arg-type]
        shown = chat(load_tokenizer(TINY), NO_THINKING)
        yield here, doubting, played(replace(here, source=doubting, chat=shown), games)


def test_a_vllm_server_behind_base_url_plays_as_transformers_do(tmp_path: Path, vllm_program: Path) -> None:
    # The template with which the model is trained and played here; a server's own may show earlier turns otherwise.
    template = ChatFormat(load_tokenizer(TINY), NO_THINKING)._template
    assert template is not None
    (tmp_path / "template.jinja").write_text(template)
    arguments = TOOLS.replace("]", f",--chat-template,{tmp_path / 'template.jinja'}]")
    with (
        serving("catch", sessions=2 * EPISODES) as games,
        transformers_play(games.url, AsShownByVllm) as (_, doubting, ours),
        stage(tmp_path, vllm_program, arguments) as one,
        one.generating(),
    ):
        assert one.plan.engine is not None
        url, model = f"{one.plan.engine.url}/v1", one.plan.engine.model
        with remote(url, model=model) as there:
            theirs = played(there, games.url)
        with pytest.raises(ConfigError, match="has no model nobody") as wrong, remote(url, model="nobody") as there:
            played(there, games.url, 1)
        assert model in wrong.value.message
    assert_agreement(doubting, [one.rollout for one in ours], [one.rollout for one in theirs])
    assert sum(one.rewards["catch.caught"] or 0 for one in theirs) >= 2


def test_vllm_in_this_process_plays_as_transformers_do() -> None:
    from vllm import LLM

    from trl_envs.evaluate.vllm_generation import VllmGenerator

    engine: Any = LLM(model=model_location("tiny"), dtype="float32", enforce_eager=True, seed=0)
    with serving("catch", sessions=2 * EPISODES) as games, transformers_play(games.url) as (here, doubting, ours):
        source = VllmGenerator(engine, here.chat.tokenizer, GREEDY, seed=0)
        assert source.context_length == doubting.context_length
        theirs = played(replace(here, source=source), games.url)
        for one, other in zip(ours, theirs, strict=True):
            if doubting.decided_turns(one.rollout) == one.rollout.turns:
                assert other.rollout.completion_ids == one.rollout.completion_ids
    assert_agreement(doubting, [one.rollout for one in ours], [one.rollout for one in theirs])
