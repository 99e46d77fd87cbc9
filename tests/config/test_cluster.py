"""The launcher of a sweep's jobs: the plugin's settings, and what isn't one of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from trl_envs.config import cluster
from trl_envs.config.cluster import compose_launcher, make_executor, split_launcher
from trl_envs.config.overrides import parse_override
from trl_envs.errors import ConfigError, PreflightError

pytest.importorskip("submitit", reason="the extra slurm isn't installed")
SLURM = "hydra/launcher=submitit_slurm"


def settings(*arguments: str) -> cluster.ClusterSettings | None:
    return compose_launcher(arguments, Path("/runs/.submitit"), "catch")


def test_the_launchers_overrides_are_told_from_the_runs() -> None:
    mine, others = split_launcher(["recipe=catch", SLURM, "seed=1,2", "hydra.launcher.partition=gpu"])
    assert (mine, others) == ([SLURM, "hydra.launcher.partition=gpu"], ["recipe=catch", "seed=1,2"])


def test_settings_are_the_plugins() -> None:
    words = ["hydra.launcher.partition=gpu", "hydra.launcher.timeout_min=30", "hydra.launcher.gres='gpu:1'"]
    found = settings(SLURM, *words, "+hydra.launcher.additional_parameters.mail-type=END")
    assert found is not None and found.launcher == "submitit_slurm"
    chosen = ("partition", "timeout_min", "gres", "additional_parameters", "nodes", "name", "submitit_folder")
    assert [found.values[name] for name in chosen] == [
        "gpu",
        30,
        "gpu:1",
        {"mail-type": "END"},
        1,
        "catch",
        "/runs/.submitit/%j",
    ]
    assert settings() is settings("hydra/launcher=basic") is None


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["hydra/launcher=submitit_slrum"], "no hydra/launcher called", "hydra/launcher=submitit_slurm"),
        ([SLURM, "hydra.launcher.partitoin=gpu"], "no setting hydra.launcher.partitoin", "hydra.launcher.partition"),
        ([SLURM, "hydra.launcher.timeout_min=long"], "hydra.launcher.timeout_min=long", "of its type"),
        ([SLURM, "hydra.launcher.partition=a,b"], "several values", "one value"),
        (["hydra.launcher.partition=gpu"], "needs a launcher", "hydra/launcher=submitit_slurm"),
    ],
)
def test_what_is_no_launcher_or_setting_is_refused(arguments: list[str], message: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings(*arguments)
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_without_the_extra_the_pip_line_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_has_plugin", lambda: False)
    with pytest.raises(ConfigError) as caught:
        settings(SLURM)
    assert caught.value.hint == "pip install 'trl-env[slurm]'"


def test_a_machine_without_slurm_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = compose_launcher([SLURM], tmp_path, "catch")
    assert found is not None
    with pytest.raises(PreflightError, match="submitit_slurm can't be used here") as caught:
        make_executor(found)
    assert "hydra/launcher=submitit_local" in caught.value.hint


def test_a_launcher_without_a_sweep_is_refused() -> None:
    for argument in (SLURM, "hydra.launcher.partition=gpu"):
        with pytest.raises(ConfigError, match="where the jobs of a sweep run") as caught:
            parse_override(argument)
        assert "-m" in caught.value.hint
