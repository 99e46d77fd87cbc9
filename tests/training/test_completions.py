"""TRL's table of completions, written at each step: whatever a model writes into its calls, it must not end the run."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas
import pyarrow
import pyarrow.parquet as parquet
import pytest
from trl import GRPOTrainer

from trl_envs.training.trainer import AgentTrainer


def asking(arguments: Any) -> list[dict[str, Any]]:
    call = {"type": "function", "function": {"name": "place", "arguments": arguments}}
    return [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "name": "place", "content": "Done."},
    ]


@pytest.mark.parametrize(
    "said",
    [[{}, {}], [{"row": 1}, {"row": "one"}], [{"row": [1]}, {"row": {"is": 1}}], [{"row": None}, "no JSON"]],
    ids=["nothing", "a number and a text", "a list and a mapping", "null and a text"],
)
def test_arguments_of_every_kind_fit_into_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: list[Any]) -> None:
    file = tmp_path / "table.parquet"
    raw = [asking(arguments) for arguments in said]
    with pytest.raises((pyarrow.ArrowException, TypeError)):
        pandas.DataFrame({"completion": raw}).to_parquet(tmp_path / "raw.parquet")

    def written(self: Any, logs: dict[str, float], start_time: float | None) -> None:
        pandas.DataFrame({"completion": list(self._logs["completion"])}).to_parquet(file)

    monkeypatch.setattr(GRPOTrainer, "log", written)
    trainer: Any = AgentTrainer.__new__(AgentTrainer)
    trainer._played, trainer._optimized_s, trainer._logged_step = {"played": 0}, 0.0, 0
    trainer.state = SimpleNamespace(global_step=1)
    trainer._logs = {"completion": deque(raw, maxlen=2)}
    trainer.log({})
    trainer.log({})
    found = [row["completion"][0]["tool_calls"][0]["function"] for row in parquet.read_table(file).to_pylist()]
    assert [one["name"] for one in found] == ["place", "place"]
    assert all(isinstance(one["arguments"], str) for one in found)
    assert raw == [asking(arguments) for arguments in said]
