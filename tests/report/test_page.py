"""The report: what it says of each kind of run, and that nothing a model writes can be more than text."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.recorded import RECIPES, bare_run, end_run, recorded_run
from tests.report.runs import HOSTILE, evaluated_run, hostile_run, won_wordle
from trl_envs.errors import ConfigError
from trl_envs.report.contents import read_contents
from trl_envs.report.games import Frames, SudokuBoard, Tiles, draw_game
from trl_envs.report.page import write_page
from trl_envs.results.episodes import read_episodes
from trl_envs.results.rundir import RunDirectory

VOID = {"meta", "link", "img", "br", "hr", "input"}


class Page(HTMLParser):
    """Reads a page strictly: every element that is opened is closed, in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.text += data

    def having(self, word: str) -> list[dict[str, str | None]]:
        """Attributes of the elements that have a class."""
        return [found for _, found in self.elements if word in (found.get("class") or "").split()]


def page_of(*runs: RunDirectory) -> Page:
    path = runs[0].path / "out.html"
    write_page([read_contents(run) for run in runs], path)
    return Page(path.read_text())


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recorded_run_shows_its_terms_curves_games_and_config(tmp_path: Path, recipe: str) -> None:
    run = recorded_run(tmp_path, recipe)
    page = page_of(run)
    titles = [found["aria-label"] for found in page.having("chart")]
    terms = {name for episode in read_episodes(run.episodes_file) for name in episode["rewards"]}
    assert {"reward", "reward: spread", "tokens per episode", "failed calls (share)",
            "environment (seconds)", *terms, *(f"{term}: spread" for term in terms)} <= set(titles)  # fmt: skip
    assert "finished" in page.text and f"recipe={recipe}" in page.text and "1.16.0" in page.text
    assert "Before and after" not in page.text
    drawn = {"catch": ["catch"], "echo": [], "multi_env": ["catch", "tiles"], "sudoku": ["sudoku"], "wordle": ["tiles"]}
    for kind in ("catch", "tiles", "sudoku"):
        assert bool(page.having(kind)) == (kind in drawn[recipe]), kind
    # One of a group, and of multi_env each game has one.
    assert len(page.having("best")) == 2
    assert page.having("worst")


def test_the_page_asks_nobody_for_anything_and_lets_no_other_script_run(tmp_path: Path) -> None:
    page = page_of(recorded_run(tmp_path, "wordle"))
    for tag, found in page.elements:
        assert not {"src", "srcset", "action", "ping", "xlink:href"} & found.keys(), tag
        assert found.get("href", "data:,") == "data:,"
        assert not any(name.startswith("on") for name in found)
    html = (tmp_path / "run" / "out.html").read_text()
    assert not re.search(r"url\(|@import", html)
    [policy] = [found["content"] for _, found in page.elements if found.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None and policy.startswith("default-src 'none'; ")
    assert re.search(r"script-src 'sha256-[\w+/=]{44}'$", policy)


def test_a_run_that_was_evaluated_shows_what_changed(tmp_path: Path) -> None:
    page = page_of(evaluated_run(tmp_path))
    assert "Before and after training" in page.text and "+0.300" in page.text
    assert "200 episodes each time" in page.text
    assert page.having("better")


def test_a_run_that_failed_before_it_played_says_why(tmp_path: Path) -> None:
    run = bare_run(tmp_path, "catch")
    end_run(run, "failed", 3, "the server of catch didn't start: no such module")
    page = page_of(run)
    assert "the server of catch didn't start: no such module" in page.text
    assert "No step was logged." in page.text
    assert page.having("failed") and not page.having("chart") and not page.having("episode")


def test_a_run_that_was_killed_and_has_no_record_is_shown_all_the_same(tmp_path: Path) -> None:
    run = recorded_run(tmp_path, "echo")
    run.record_file.unlink()
    run.plan_file.write_text("")
    page = page_of(run)
    assert page.having("unknown") and page.having("chart") and page.having("best")


def test_signs_and_dashboard_are_shown(tmp_path: Path) -> None:
    run = bare_run(tmp_path, "catch", report_to=["trackio"], project="my project")
    end_run(run, "finished", 0, signs=[{"name": "clipped", "message": "97% cut off", "hint": "raise the limit"}])
    text = page_of(run).text
    assert "clipped: 97% cut off" in text and "try: raise the limit" in text
    assert "trackio show --project 'my project'" in text


def test_two_runs_are_beside_each_other_with_what_differs(tmp_path: Path) -> None:
    first = evaluated_run(tmp_path, name="first")
    second = recorded_run(tmp_path, "catch", "grpo.learning_rate=3e-5", name="second")
    page = page_of(first, second)
    assert "What was asked for differently" in page.text
    assert "grpo.learning_rate" in page.text and "3e-05" in page.text
    assert "run_name" not in page.text.partition("What was asked for differently")[2].partition("Config and")[0]
    [reward] = [found for found in page.having("chart") if found["aria-label"] == "reward"]
    lines = reward["data-lines"]
    assert lines is not None and '"run":0' in lines and '"run":1' in lines
    assert "Not evaluated before and after." in page.text
    again = recorded_run(tmp_path, "catch", name="again")
    same = recorded_run(tmp_path, "catch", name="same")
    assert "Nothing: the two configs are the same." in page_of(again, same).text


def test_what_a_model_writes_is_text(tmp_path: Path) -> None:
    run = hostile_run(tmp_path)
    page = page_of(run)
    html = (run.path / "out.html").read_text()
    # As text it is there, in calls, answers, errors, the message and the sign; as elements it isn't.
    assert page.text.count(HOSTILE) >= 4
    assert "<img" not in html and html.count("<script") == 1
    assert all(tag != "img" for tag, _ in page.elements)
    assert "{{ 7*7 }}" in page.text


def test_a_wordle_game_is_drawn_with_what_was_not_taken(tmp_path: Path) -> None:
    run = won_wordle(tmp_path)
    [line] = read_episodes(run.episodes_file)
    drawn = draw_game(line)
    assert drawn == Tiles(
        rows=[
            [("C", "X"), ("R", "Y"), ("A", "G"), ("N", "X"), ("E", "X")],
            [("[zzzzz]", "")],
            [(letter, "G") for letter in "DRAFT"],
        ],
        left=4,
        letters=5,
    )
    page = page_of(run)
    assert len(page.having("tile")) == 5 + 5 + 4 * 5
    assert "not taken: [zzzzz]" in page.text


def test_a_sudoku_grid_tells_clues_from_placed_numbers() -> None:
    board = "5" + "." * 79 + "7"
    accepted = {"tool": "place", "arguments": {"row": 1, "column": 1, "number": 5},
                "result": "Placed 5 at row 1, column 1.\nProgress: 1 cells filled"}  # fmt: skip
    refused = {"tool": "place", "arguments": {"row": 2, "column": 3, "number": 9}, "result": "Invalid move: no."}
    drawn = draw_game({"facts": {"board": board}, "events": [accepted, refused]})
    assert isinstance(drawn, SudokuBoard)
    assert (drawn.cells[0][0], drawn.cells[0][1], drawn.cells[8][8]) == (("5", "placed"), ("", "empty"), ("7", "clue"))
    assert drawn.refused == ["9 at row 2, column 3"]


def test_catch_is_drawn_to_the_last_move() -> None:
    def move(direction: str, result: str) -> dict[str, object]:
        return {"tool": "move", "arguments": {"direction": direction}, "result": result}

    where = "Ball: column 2. Paddle: column {}. The ball is over there. Moves left: {}."
    events = [move("left", where.format(3, 2)), move("left", where.format(2, 1)), move("left", "You missed the ball.")]
    drawn = draw_game({"facts": {"caught": False}, "events": events})
    assert isinstance(drawn, Frames)
    assert drawn.frames == [(7, 1, 2), (8, 1, 1), (9, 1, 0)]


@pytest.mark.parametrize(
    "line",
    [
        {},
        {"facts": {"board": "x" * 81}, "events": []},
        {"facts": {"caught": True}, "events": [{"tool": "stay", "result": None}]},
        {"facts": {"attempts": "6", "letters": 5}, "events": ["no event"]},
    ],
    ids=["empty", "no grid", "no board", "no numbers"],
)
def test_what_is_no_known_game_is_not_drawn(line: dict[str, object]) -> None:
    assert draw_game(line) is None


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no run directory"):
        read_contents(RunDirectory(tmp_path))
