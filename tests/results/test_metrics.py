from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from trl_envs.results.jsonlines import JsonLinesWriter, json_ready, read_json_lines
from trl_envs.results.metrics import MetricsTail, MetricsWriter, number_of, read_metrics, term_of

ROOT = Path(__file__).parents[2]


class Scalar:
    """As numpy's and torch's."""

    def __init__(self, value: float) -> None:
        self.value = value

    def item(self) -> float:
        return self.value


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    writer = MetricsWriter(path)
    writer.write(1, {"reward": 0.5, "rewards/catch.caught/mean": Scalar(0.25)})
    # On disk before it is closed.
    assert read_metrics(path) == [{"step": 1, "reward": 0.5, "rewards/catch.caught/mean": 0.25}]
    writer.close()
    writer.close()


def test_nan_and_infinities_become_null(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    writer = MetricsWriter(path)
    nan, inf = float("nan"), float("inf")
    writer.write(1, {"a": nan, "b": [inf, 1.0, -inf], "c": {"d": Scalar(nan)}, "e": (1, nan), 5: True})
    text = path.read_text()
    assert "NaN" not in text and "Infinity" not in text
    assert json.loads(text) == {
        "step": 1,
        "a": None,
        "b": [None, 1.0, None],
        "c": {"d": None},
        "e": [1, None],
        "5": True,
    }


def test_values_that_are_not_json_are_refused(tmp_path: Path) -> None:
    with JsonLinesWriter(tmp_path / "a.jsonl") as lines, pytest.raises(TypeError):
        lines.write({"a": object()})
    assert (tmp_path / "a.jsonl").read_bytes() == b""
    assert json_ready({"a": None}) == {"a": None}


def test_text_of_any_kind_survives(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    entry = {"text": "⬜🟩 line\nend \u2028 half a pair \ud83d"}
    with JsonLinesWriter(path) as lines:
        lines.write(entry)
        lines.write({})
    assert list(read_json_lines(path)) == [entry, {}]
    assert "🟩".encode() in path.read_bytes()


def test_half_a_line_is_left_out_and_closed_off_by_the_next_writer(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "reward": 1.0}\n{"step": 2, "rew')
    assert [line["step"] for line in read_metrics(path)] == [1]
    MetricsWriter(path).write(2, {"reward": 2.0})
    assert [line["reward"] for line in read_metrics(path)] == [1.0, 2.0]
    assert read_metrics(tmp_path / "missing.jsonl") == []


def test_lines_that_are_no_objects_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'\n[1]\n17\nnull\n\xff\xfe\n{"step": 3}\n')
    assert read_metrics(path) == [{"step": 3}]


def test_a_resumed_run_replaces_what_it_does_again(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    writer = MetricsWriter(path)
    for step in (1, 2, 3):
        writer.write(step, {"reward": step, "epoch": 0.1})
    writer.write(3, {"eval_reward": 0.3, "epoch": 0.1})
    writer.write(2, {"reward": 20})
    writer.write(3, {"reward": 30})
    writer.write(3, {"train_runtime": 9.0, "epoch": 0.1})
    assert [(line["step"], line.get("reward")) for line in read_metrics(path)] == [(1, 1), (2, 20), (3, 30), (3, None)]


def test_a_run_killed_one_step_after_its_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    for step, reward in ((1, 1.0), (2, 2.0), (2, 20.0)):
        MetricsWriter(path).write(step, {"reward": reward, "epoch": 0})
    assert [line["reward"] for line in read_metrics(path)] == [1.0, 20.0]


def test_the_tail_gives_each_whole_line_once(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    tail = MetricsTail(path)
    assert tail.new() == []
    with path.open("a") as file:
        file.write('{"step": 1}\n{"st')
        file.flush()
        assert tail.new() == [{"step": 1}]
        assert tail.new() == []
        file.write('ep": 2}\nnonsense\n{"step": 3}\n')
        file.flush()
        assert tail.new() == [{"step": 2}, {"step": 3}]
        assert tail.new() == []
    path.write_text('{"step": 1}\n')
    assert tail.new() == [{"step": 1}]


def test_lines_of_several_processes_do_not_mix(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from trl_envs.results.jsonlines import JsonLinesWriter\n"
        "lines = JsonLinesWriter(Path(sys.argv[1])); sys.stdin.readline()\n"
        "for number in range(200): lines.write({'who': sys.argv[2], 'number': number, 'text': 'x' * 20_000})"
    )
    path = tmp_path / "a.jsonl"
    pair = [
        subprocess.Popen([sys.executable, "-c", code, str(path), who], cwd=ROOT, stdin=subprocess.PIPE) for who in "ab"
    ]
    for process in pair:
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
    assert [process.wait(30) for process in pair] == [0, 0]
    for process in pair:
        process.stdin.close()  # type: ignore[union-attr]
    entries = list(read_json_lines(path))
    for who in "ab":
        assert [entry["number"] for entry in entries if entry["who"] == who] == list(range(200))


def test_names_of_terms() -> None:
    assert term_of("rewards/catch.caught/mean") == "catch.caught"
    assert [term_of(key) for key in ("rewards/catch.caught/std", "reward", "rewards//mean", "rewards/mean")] == [
        None
    ] * 4


def test_numbers_only() -> None:
    metrics = {"a": 1, "b": None, "c": "3", "d": True, "e": 0.5}
    assert [number_of(metrics, key) for key in "abcdef"] == [1.0, None, None, None, 0.5, None]
