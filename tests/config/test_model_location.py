"""What the files of a model say of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trl_envs import paths
from trl_envs.config.model_location import base_model, model_location, model_settings


def test_an_adapter_names_its_base_and_any_other_model_is_its_own(tmp_path: Path) -> None:
    assert base_model(str(tmp_path)) == str(tmp_path)
    assert base_model("Qwen/Qwen3-0.6B") == "Qwen/Qwen3-0.6B"
    (tmp_path / "adapter_config.json").write_text("{}")
    assert base_model(str(tmp_path)) == str(tmp_path)
    (tmp_path / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "Qwen/Qwen3-0.6B"}))
    assert base_model(str(tmp_path)) == "Qwen/Qwen3-0.6B"


def test_a_run_that_trained_an_adapter_serves_the_base(tmp_path: Path) -> None:
    (tmp_path / "record.json").write_text("{}")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "me/base"}))
    assert base_model(model_location(str(tmp_path))) == "me/base"


def test_settings_come_from_a_folder_or_from_the_hubs_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = model_settings(str(paths.tiny_model_dir()))
    assert tiny is not None and tiny["model_type"] == "qwen3"
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert model_settings("me/model") is None
    snapshot = tmp_path / "models--me--model" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (tmp_path / "models--me--model" / "refs").mkdir()
    (tmp_path / "models--me--model" / "refs" / "main").write_text("abc")
    assert model_settings("me/model") is None
    (snapshot / "config.json").write_text('{"num_hidden_layers": 2}')
    assert model_settings("me/model") == {"num_hidden_layers": 2}
    (snapshot / "config.json").write_text("broken")
    assert model_settings("me/model") is None
