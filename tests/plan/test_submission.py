"""Requests for a job that can't be made: what is missing, and what would mend it."""

from __future__ import annotations

from pathlib import Path

import pytest

from trl_envs.config.compose import compose
from trl_envs.errors import TrlEnvError
from trl_envs.plan.submission import JobRequest, plan_job

WHOLE = "job=hf_jobs job.flavor=l4x1 job.timeout=4h"


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def request(words: str, push_to: str | None = "me/a") -> JobRequest:
    return plan_job(compose(["recipe=wordle", *words.split()]), version="1.2.3", push_to=push_to)


@pytest.mark.parametrize(
    ("words", "push_to", "named", "hint"),
    [
        ("job=hf_jobs job.timeout=4h", "me/a", "job.flavor isn't set", "job.flavor=a100-large"),
        ("job=hf_jobs job.flavor=l4x1", "me/a", "job.timeout isn't set", "job.timeout=4h"),
        ("job=hf_jobs job.flavor=l4x1 job.timeout=soon", "me/a", "job.timeout=soon is no time", "job.timeout=4h"),
        ("job=hf_jobs job.flavor=l4x1 job.timeout=0h", "me/a", "job.timeout=0h is no time", "job.timeout=4h"),
        (WHOLE, None, "nothing says where the trained model should go", "--push-to OWNER/NAME"),
        (f"{WHOLE} grpo.push_to_hub=true", None, "nothing says where", "grpo.hub_model_id=OWNER/NAME"),
        (WHOLE, "agent", "agent is no name of a model repository", "--push-to OWNER/NAME"),
        ("job.flavor=l4x1 job.timeout=4h", "me/a", "where should the run be submitted", "job=hf_jobs"),
        ("job=hf_job", "me/a", "there is no job called 'hf_job'", "job=hf_jobs"),
        (f"{WHOLE} server=docker", "me/a", "there is no Docker inside a job", "server=local"),
        (f"{WHOLE} envs.wordle.episodes=1", "me/a", "TRL would train no step", "envs.wordle.episodes=4"),
    ],
)
def test_what_is_missing_is_refused(words: str, push_to: str | None, named: str, hint: str) -> None:
    with pytest.raises(TrlEnvError) as caught:
        request(words, push_to)
    assert caught.value.exit_code == 2
    assert named in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("words", "package"),
    [
        (WHOLE, "trl-env[vllm]==1.2.3"),
        (f"{WHOLE} launch=single", "trl-env==1.2.3"),
        (f"{WHOLE} job.flavor=cpu-upgrade", "trl-env==1.2.3"),
    ],
)
def test_vllm_is_installed_where_it_can_be_used(words: str, package: str) -> None:
    assert request(words).command[4] == package


def test_a_config_that_names_its_repository_and_another_token_needs_no_more() -> None:
    words = f"{WHOLE} grpo.push_to_hub=true grpo.hub_model_id=me/b server.token_env=SPACE_TOKEN"
    made = request(words, None)
    assert (made.push_to, made.secrets) == ("me/b", ("HF_TOKEN", "SPACE_TOKEN"))
