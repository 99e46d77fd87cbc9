from __future__ import annotations

from pathlib import Path

from trl_envs.results.episodes import EpisodeWriter, count_episodes, read_episodes

PLAYED = {"environment": "catch", "seed": 4, "events": [{"tool": "stay"}], "done": True, "lost": None, "facts": {}}


def test_episodes_are_appended_with_where_they_belong(tmp_path: Path) -> None:
    path = tmp_path / "episodes.jsonl"
    writer = EpisodeWriter(path)
    place = {"step": 3, "group": 1, "rewards": {"catch.caught": 1.0, "echo.same": None}}
    writer.write(PLAYED, step=3, group=1, rewards={"catch.caught": 1.0, "echo.same": None})
    assert list(read_episodes(path)) == [{**PLAYED, **place}]
    writer.close()


def test_lost_episodes_are_counted_by_reason(tmp_path: Path) -> None:
    path = tmp_path / "episodes.jsonl"
    writer = EpisodeWriter(path)
    for lost in (None, "server closed", "server full", "server closed", ""):
        writer.write({**PLAYED, "lost": lost}, step=1, group=0, rewards={})
    with path.open("a") as file:
        file.write('{"environment": "cat')
    counts = count_episodes(path)
    assert (counts.episodes, counts.lost) == (5, 4)
    assert counts.reasons.most_common(1) == [("server closed", 2)]
    assert count_episodes(tmp_path / "missing").episodes == 0
