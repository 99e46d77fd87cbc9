from __future__ import annotations

from pathlib import Path

import pytest

from trl_envs.agent.targets import check_settings, load_target
from trl_envs.errors import ConfigError
from trl_envs.paths import make_importable

HERE = "tests.agent.plain_env"


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("tests.agent.plain_env.Plane", ["has no Plane", "did you mean Plain?"]),
        ("tests.agent.no_such.Plain", ["no module tests.agent.no_such"]),
        ("nowhere.Plain", ["no module nowhere"]),
        ("Plain", ["no dotted path"]),
        (None, ["no dotted path"]),
        ("tests.agent.plain_env.NOT_CALLABLE", ["is a int"]),
    ],
)
def test_a_target_that_is_not_there_is_explained(path: object, named: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        load_target(path, "envs.x.environment._target_")
    for part in ["envs.x.environment._target_", *named]:
        assert part in str(caught.value)


def test_an_error_inside_the_users_module_keeps_its_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine_lacking.py").write_text("import surely_not_installed\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="surely_not_installed"):
        load_target("mine_lacking.Env", "key")


def test_folders_become_importable_here_and_in_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", ["/before"])
    monkeypatch.setenv("PYTHONPATH", "/kept")
    make_importable([str(tmp_path), "/kept"])
    import os
    import sys

    assert sys.path == [str(tmp_path), "/kept", "/before"]
    assert os.environ["PYTHONPATH"].split(os.pathsep) == [str(tmp_path), "/kept"]


@pytest.mark.parametrize(
    ("name", "settings", "named"),
    [
        ("Configured", {"start": 1, "stepp": 2}, ["takes no stepp", "did you mean k.step?"]),
        ("Configured", {}, ["needs start", "set k.start"]),
        ("Plain", {"start": 1}, ["takes no start"]),
        ("events", {"eachh": 1.0}, ["takes no eachh", "did you mean k.each?"]),
        ("total", {"number": 1.0}, ["takes no number"]),
    ],
)
def test_settings_are_held_against_the_signature(name: str, settings: dict[str, object], named: list[str]) -> None:
    given = ("episode", "environments", "kwargs")
    with pytest.raises(ConfigError) as caught:
        check_settings(load_target(f"{HERE}.{name}", "k"), settings, "k", given=given)
    for part in named:
        assert part in str(caught.value)
