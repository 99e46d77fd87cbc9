"""Environments on Spaces, with a stand-in for the Hub's API on loopback."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.plan.test_build import facts
from tests.servers.fake_hub import FORBIDDEN, TOKEN, FakeHub, Space, hub_serving, space_serving
from trl_envs.config.compose import Composed, compose
from trl_envs.config.token import sends_token_to_space
from trl_envs.errors import Interrupted, PreflightError, StartupError
from trl_envs.plan.build import build_plan
from trl_envs.plan.launch_plan import EnvironmentPlan, LaunchPlan
from trl_envs.preflight.findings import Finding
from trl_envs.preflight.space_rules import capacity_findings
from trl_envs.servers import space as space_module
from trl_envs.servers.hub import Hub
from trl_envs.servers.space import await_spaces, find_spaces
from trl_envs.servers.start import heartbeat

pytestmark = pytest.mark.usefixtures("online")


def planned(*overrides: str, recipe: str = "catch") -> tuple[Composed, LaunchPlan]:
    composed = compose([f"recipe={recipe}", "server=space", *overrides])
    return composed, build_plan(composed.config, facts(), Path("/runs/one"), [])


def asking(hub: FakeHub, token: str | None = None) -> Hub:
    return Hub(token, endpoint=hub.url)


def located(hub: FakeHub, *overrides: str, token: str | None = None) -> EnvironmentPlan:
    """Where catch is played, once the Hub has been asked and the Space runs."""
    composed, plan = planned(*overrides)
    found = find_spaces(plan, composed.config.server, asking(hub, token))
    ready = await_spaces(found.plan, composed.config.server, asking(hub, token), lambda name, what: None)
    return ready.environments["catch"]


def capacity(hub: FakeHub, *overrides: str, recipe: str = "wordle", token: str | None = None) -> list[Finding]:
    composed, plan = planned(*overrides, recipe=recipe)
    found = find_spaces(plan, composed.config.server, asking(hub, token))
    user = found.user.name if found.user else None
    return capacity_findings(composed.config, found.plan, user, composed.overrides)


def test_the_address_is_the_hubs_and_a_public_space_learns_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    with space_serving() as served, hub_serving(openenv__openspiel_env=Space(f"{served.url}/")) as hub:
        server = located(hub, token=TOKEN)
    assert (server.urls, server.token, server.shared, server.declared) == ((served.url,), False, True, None)
    assert served.tokens("/health") == {None}
    assert hub.asked("GET", "/openspiel_env")[0][2] == f"Bearer {TOKEN}"


@pytest.mark.parametrize(("name", "shared"), [("me/catch", False), ("my-team/catch", False), ("you/catch", True)])
def test_whose_space_it_is_decides_whether_all_sessions_are_tried(name: str, shared: bool) -> None:
    with hub_serving(**{name.replace("/", "__"): Space()}) as hub:
        composed, plan = planned(f"envs.catch.space={name}")
        for token, expected in ((TOKEN, shared), (None, True)):
            found = find_spaces(plan, composed.config.server, asking(hub, token))
            assert found.plan.environments["catch"].shared is expected


def test_a_private_space_gets_the_token_and_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    composed, plan = planned("envs.catch.space=me/catch")
    with space_serving(private=True) as served, hub_serving(me__catch=Space(served.url, private=True)) as hub:
        server = located(hub, "envs.catch.space=me/catch", token=TOKEN)
        assert server.token
        listening = heartbeat(plan.with_servers({"catch": server}), {}, composed.config.server, composed.config.rollout)
        (heart,) = listening._hearts.values()
        assert heart.token == TOKEN and TOKEN not in repr(heart)
        assert served.tokens("/health") == {f"Bearer {TOKEN}"}
        monkeypatch.delenv("HF_TOKEN")
        with pytest.raises(PreflightError, match="is private, and the variable HF_TOKEN holds no token") as caught:
            located(hub, "envs.catch.space=me/catch", token=TOKEN)
        assert "hf auth token" in caught.value.hint
    for sent in ("http://me-catch.example.com", "ftp://127.0.0.1"):
        assert sends_token_to_space(True, sent) is sent.endswith("127.0.0.1")
    assert sends_token_to_space(True, "https://me-catch.hf.space")
    assert not sends_token_to_space(False, "https://me-catch.hf.space")


def test_a_space_that_sleeps_is_woken_and_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space_module, "POLL_S", 0.05)
    told: list[str] = []
    with space_serving() as served:
        space = Space(served.url, stages=["SLEEPING", "SLEEPING", "APP_STARTING", "APP_STARTING", "RUNNING"])
        with hub_serving(openenv__openspiel_env=space) as hub:
            composed, plan = planned()
            found = find_spaces(plan, composed.config.server, asking(hub))
            ready = await_spaces(found.plan, composed.config.server, asking(hub), lambda name, what: told.append(what))
        assert ready.environments["catch"].urls == (served.url,)
        # Each request to a sleeping Space asks for it to be woken.
        assert served.requests[0] == ("/health", None)
    assert [line.partition(" (")[0] for line in told] == [
        "openenv/openspiel_env sleeps; waking it",
        "openenv/openspiel_env starts",
    ]
    assert "of 600 s)" in told[0]


def test_a_new_space_has_its_address_only_once_it_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space_module, "POLL_S", 0.05)
    with space_serving() as served:
        space = Space(None, stages=["BUILDING", "BUILDING", "BUILDING", "RUNNING"])
        with hub_serving(openenv__openspiel_env=space) as hub:
            answer = hub.answer

            def built(method: str, path: str, token: str | None, body: object) -> object:
                space.host = served.url if len(space.stages) < 3 else None
                return answer(method, path, token, body)

            monkeypatch.setattr(hub, "answer", built)
            assert located(hub).urls == (served.url,)


def test_waiting_has_an_end_and_names_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space_module, "POLL_S", 0.05)
    with hub_serving(openenv__openspiel_env=Space(stages=["BUILDING"])) as hub, pytest.raises(StartupError) as caught:
        located(hub, "server.space_timeout_s=0.2")
    assert "openenv/openspiel_env is being built, and isn't ready after 0.2 s" in caught.value.message
    assert "server.space_timeout_s" in caught.value.hint


def test_a_signal_ends_the_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    started_s = time.monotonic()

    def check() -> None:
        if time.monotonic() - started_s > 1:
            raise Interrupted(15)

    with hub_serving(openenv__openspiel_env=Space(stages=["BUILDING"])) as hub:
        composed, plan = planned()
        with pytest.raises(Interrupted):
            await_spaces(plan, composed.config.server, Hub(None, check, hub.url), lambda name, what: None)
    assert time.monotonic() - started_s < 3


@pytest.mark.parametrize(
    ("stage", "words"),
    [
        ("PAUSED", "its owner must restart it"),
        ("BUILD_ERROR", "it couldn't be built"),
        ("RUNTIME_ERROR", "its server crashed"),
        ("CONFIG_ERROR", "isn't the configuration"),
        ("NO_APP_FILE", "no server in it"),
    ],
)
def test_a_broken_space_is_refused_at_once_in_the_hubs_words(stage: str, words: str) -> None:
    space = Space(stages=[stage], error="exit code 1: no module named wordle")
    with hub_serving(openenv__openspiel_env=space) as hub, pytest.raises(StartupError) as caught:
        located(hub)
    for part in ("envs.catch.space=openenv/openspiel_env", words, stage, "no module named wordle"):
        assert part in caught.value.message
    assert "https://huggingface.co/spaces/openenv/openspiel_env" in caught.value.hint
    assert "envs.catch.server=local" in caught.value.hint


def test_a_space_that_is_not_there_is_named_with_what_to_do() -> None:
    with hub_serving() as hub, pytest.raises(PreflightError) as caught:
        located(hub, "envs.catch.space=me/katch")
    assert "envs.catch.space=me/katch: no such Space" in caught.value.message
    assert "HF_TOKEN=" in caught.value.hint and "envs.catch.server=local" in caught.value.hint


def test_a_hub_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with hub_serving() as hub:
        url = hub.url
    composed, plan = planned()
    with pytest.raises(StartupError, match=f"the Hub can't be reached at {url}") as caught:
        find_spaces(plan, composed.config.server, Hub(None, endpoint=url))
    assert "server=local" in caught.value.hint
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(StartupError, match="HF_HUB_OFFLINE is set"):
        find_spaces(plan, composed.config.server, Hub(None, endpoint=url))


def test_no_hub_is_asked_for_a_run_without_spaces() -> None:
    composed, plan = planned("server=local")
    with hub_serving() as hub:
        assert find_spaces(plan, composed.config.server, asking(hub)).plan is plan
        assert await_spaces(plan, composed.config.server, asking(hub), lambda name, what: None) == plan
        assert hub.requests == []


@pytest.mark.parametrize(
    ("variables", "refused"),
    [({"MAX_CONCURRENT_ENVS": "8"}, True), ({"MAX_CONCURRENT_ENVS": "64"}, False), ({}, False), (None, False)],
)
def test_a_space_that_declares_too_few_sessions_is_refused(variables: dict[str, str] | None, refused: bool) -> None:
    with hub_serving(openenv__wordle=Space(variables=variables)) as hub:
        findings = capacity(hub, token=TOKEN)
        assert len(findings) == refused
        if refused:
            (finding,) = findings
            assert finding.key == "envs.wordle.space"
            assert "wordle: 64 sessions needed at once, 8 found" in finding.message
            copying, fewer = finding.hint.split("; or ask for fewer: ")
            assert copying.endswith(": trl-env space duplicate recipe=wordle --to me/wordle")
            assert planned(*fewer.split(), recipe="wordle")[1].batch.sessions == 8
            assert capacity(hub, *fewer.split(), token=TOKEN) == []


def test_the_ways_out_follow_from_whose_space_it_is_and_what_was_typed() -> None:
    small = {"MAX_CONCURRENT_ENVS": "8"}
    with hub_serving(me__wordle=Space(variables=small), openenv__wordle=Space(variables=small)) as hub:
        (own,) = capacity(hub, "envs.wordle.space=me/wordle", token=TOKEN)
        assert "hf spaces variables add me/wordle -e MAX_CONCURRENT_ENVS=72" in own.hint
        (other,) = capacity(hub, "grpo.gradient_accumulation_steps=16", "output_dir=/x")
        assert "recipe=wordle grpo.gradient_accumulation_steps=16 --to USER/wordle" in other.hint


def test_environments_on_one_space_need_the_sum() -> None:
    spaces = {"openenv__wordle": Space(variables={"MAX_CONCURRENT_ENVS": "50"}), "openenv__openspiel_env": Space()}
    with hub_serving(**spaces) as hub:
        assert capacity(hub, recipe="multi_env") == []
        (finding,) = capacity(hub, "envs.catch.space=openenv/wordle", recipe="multi_env")
        assert "wordle and catch: 64 sessions needed at once, 50 found" in finding.message
        assert len(hub.asked("GET", "/wordle")) == 2


def test_a_hub_that_refuses_otherwise_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with hub_serving(openenv__openspiel_env=Space()) as hub:
        monkeypatch.setattr(hub, "answer", lambda *_: (503, {}, {"error": "Down for maintenance"}))
        with pytest.raises(StartupError, match="the Hub refuses: Down for maintenance"):
            located(hub)
        monkeypatch.setattr(hub, "answer", lambda *_: FORBIDDEN)
        with pytest.raises(PreflightError, match="You don't have the required permissions"):
            located(hub)
