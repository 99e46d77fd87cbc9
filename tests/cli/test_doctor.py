from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from trl_envs.cli.app import app
from trl_envs.preflight import installation


def call(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["doctor", *arguments])
    return result.exit_code, result.output


def test_this_environment_is_within_its_windows() -> None:
    code, out = call()
    assert code == 0
    assert "trl " in out
    assert "out of its window" not in out
    found = json.loads(call("--json")[1])
    assert {"trl", "openenv", "transformers", "torch", "vllm"} <= {row["name"] for row in found["packages"]}
    assert {row["name"] for row in found["extras"]} == {"vllm", "trackio"}


@pytest.mark.parametrize(
    ("name", "version", "code"),
    [("trl", "1.15.3", 2), ("trl", "1.17.0", 2), ("openenv", None, 2), ("vllm", "0.31.0", 0), ("vllm", None, 0)],
)
def test_what_is_out_of_its_window_is_named_with_the_line_that_repairs_it(
    monkeypatch: pytest.MonkeyPatch, name: str, version: str | None, code: int
) -> None:
    real = installation.installed_versions

    def changed(names: Any) -> dict[str, str | None]:
        return {**real(names), **({name: version} if name in set(names) else {})}

    monkeypatch.setattr(installation, "installed_versions", changed)
    exit_code, out = call()
    assert exit_code == code
    assert (f"pip install '{name}>=" in out) is (version is not None or code == 2)


def test_a_token_is_never_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_very_secret")
    code, out = call()
    assert code == 0
    assert "HF_TOKEN is set" in out
    assert "hf_very_secret" not in out + call("--json")[1]
