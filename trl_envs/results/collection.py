"""A folder of collected games: what it was made from, every game that was played, and those that were kept.

collection.json   what it was made from and, once it is finished, what came of it
played.jsonl      every episode with its game, in the order of playing; what an interrupted collect goes on from
games.jsonl       the games that were kept, a line each, as TRL's SFTTrainer takes them: written last, whole
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trl_envs.errors import ConfigError
from trl_envs.results.jsonlines import json_ready, read_json_lines
from trl_envs.results.rundir import write_whole
from trl_envs.results.statistics import Estimate, estimate

# Of collection.json; a later layout gets another number.
FORMAT = 1


@dataclass(frozen=True)
class Gathered:
    """What came of a collection.

    Args:
        episodes: Games asked for, of each environment.
        min_reward: Least weighted sum of the terms that was kept; None kept all.
        played: Episodes played and not lost.
        kept: Those of them in games.jsonl.
        below: Those left out for their reward, unscored ones among them where there is a least one.
        cut_off: Those left out because the model didn't come to their end.
        thoughts: Turns in games.jsonl with a reasoning before the call.
        reward: Weighted sum of the terms of all that were played.
        kept_reward: The same of those that were kept.
    """

    episodes: int
    min_reward: float | None
    played: int
    kept: int
    below: int
    cut_off: int
    thoughts: int
    reward: Estimate
    kept_reward: Estimate


@dataclass(frozen=True)
class Collection:
    """A folder of collected games.

    Args:
        path: The folder.
    """

    path: Path

    @property
    def about_file(self) -> Path:
        """What the games were made from, and what came of them."""
        return self.path / "collection.json"

    @property
    def played_file(self) -> Path:
        """Every episode played so far."""
        return self.path / "played.jsonl"

    @property
    def games_file(self) -> Path:
        """The games that were kept; there once the collection is finished."""
        return self.path / "games.jsonl"

    @contextmanager
    def held(self, made_from: Mapping[str, Any]) -> Iterator[None]:
        """Inside, this process alone collects into the folder, which is made if it isn't there.

        Args:
            made_from: Whatever the games follow from, JSON-able.

        Raises:
            ConfigError: The folder can't be had, holds something else or games made from something else, or another
                process collects into it.
        """
        self._refuse_strangers()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = (self.path / ".lock").open("w")
        except OSError as error:
            raise ConfigError(f"--out {self.path}: {error.strerror}", "name a folder that can be written") from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise ConfigError(
                    f"another process collects into {self.path}", "wait for it, or name another folder: --out FOLDER"
                ) from error
            self._claim(json.loads(json.dumps(json_ready(made_from))))
            yield

    def _refuse_strangers(self) -> None:
        """Refuses a folder that holds something else, before anything is written into it."""
        if not self.path.is_dir() or self.about_file.exists():
            return
        strangers = sorted(file.name for file in self.path.iterdir() if file.name != ".lock")
        if strangers:
            raise ConfigError(
                f"--out {self.path} holds something else already: {', '.join(strangers[:3])}",
                "name a new folder: --out FOLDER",
            )

    def _claim(self, made_from: dict[str, Any]) -> None:
        """Writes down what the games are made from, or compares it with what is written."""
        if not self.about_file.exists():
            self._write(made_from, None)
            return
        differing = _differences(self.made_from(), made_from)
        if differing:
            changes = "; ".join(f"{key} was {_short(was)} and is {_short(now)}" for key, was, now in differing[:5])
            raise ConfigError(
                f"{self.path} holds games that were made from something else: {changes}",
                "name another folder, --out FOLDER, or collect as before",
            )

    def about(self) -> dict[str, Any]:
        """The content of collection.json.

        Raises:
            ConfigError: There is none, or it can't be read.
        """
        hint = "collect games first: trl-env collect recipe=NAME --policy solver --episodes 200 --out FOLDER"
        try:
            about = json.loads(self.about_file.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise ConfigError(f"{self.path} holds no collected games: there is no collection.json", hint) from error
        except (OSError, ValueError) as error:
            raise ConfigError(f"{self.about_file} can't be read: {error}", hint) from error
        if not isinstance(about, dict) or about.get("format") != FORMAT:
            raise ConfigError(f"{self.about_file} is of another format than this version's ({FORMAT})", hint)
        return about

    def made_from(self) -> dict[str, Any]:
        """What the games follow from."""
        made_from: dict[str, Any] = self.about()["made_from"]
        return made_from

    def gathered(self) -> Gathered | None:
        """What came of it; None if it isn't finished."""
        found = self.about()["gathered"]
        if found is None:
            return None
        estimates = {name: Estimate(**found[name]) for name in ("reward", "kept_reward")}
        return Gathered(**{**found, **estimates})

    def numbers(self) -> dict[str, set[int]]:
        """Numbers of the episodes that have been played, by environment."""
        found: dict[str, set[int]] = {}
        for one in read_json_lines(self.played_file):
            found.setdefault(one["environment"], set()).add(one["number"])
        return found

    def begin(self) -> None:
        """Notes that games are still to come; what was finished before can't be taken for the whole any more."""
        self._write(self.made_from(), None)

    def finish(self, episodes: int, min_reward: float | None) -> Gathered:
        """Chooses among the games that were played, writes games.jsonl, and notes what came of it.

        Args:
            episodes: How many of each environment are wanted; of more that were played the first ones are taken.
            min_reward: Least weighted sum of the terms; None keeps all.

        Raises:
            ConfigError: No game is left.
        """
        rewards: list[float] = []
        kept: list[float] = []
        counts = {"played": 0, "kept": 0, "below": 0, "cut_off": 0, "thoughts": 0}
        draft = self.path / ".games.jsonl.tmp"
        with draft.open("w", encoding="utf-8", errors="backslashreplace") as file:
            for one in read_json_lines(self.played_file):
                if one["number"] >= episodes:
                    continue
                reward, game = one["reward"], one["game"]
                counts["played"] += 1
                rewards += [] if reward is None else [reward]
                below = min_reward is not None and (reward is None or reward < min_reward)
                counts["kept" if not below and game else "below" if below else "cut_off"] += 1
                if below or game is None:
                    continue
                kept += [] if reward is None else [reward]
                counts["thoughts"] += sum(bool(message.get("reasoning_content")) for message in game["messages"])
                file.write(json.dumps({**game, **_facts(one)}, ensure_ascii=False) + "\n")
        if not counts["kept"]:
            draft.unlink()
            raise ConfigError(
                f"none of {counts['played']} games is left: {counts['below']} have less than "
                f"--min-reward {min_reward}, {counts['cut_off']} were cut off",
                "ask for less: --min-reward 0, or for more episodes",
            )
        draft.replace(self.games_file)
        found = Gathered(episodes, min_reward, reward=estimate(rewards), kept_reward=estimate(kept), **counts)
        self._write(self.made_from(), found)
        return found

    def _write(self, made_from: Mapping[str, Any], gathered: Gathered | None) -> None:
        about = {"format": FORMAT, "made_from": made_from, "gathered": None if gathered is None else asdict(gathered)}
        write_whole(self.about_file, json.dumps(json_ready(about), indent=2, ensure_ascii=False) + "\n")


def _facts(one: Mapping[str, Any]) -> dict[str, Any]:
    return {name: one[name] for name in ("environment", "seed", "rewards", "reward")}


def _differences(was: Any, now: Any, key: str = "") -> list[tuple[str, Any, Any]]:
    """Dotted keys whose values differ, with both values."""
    if isinstance(was, dict) and isinstance(now, dict):
        keys = [*was, *(name for name in now if name not in was)]
        prefix = f"{key}." if key else ""
        return [found for k in keys for found in _differences(was.get(k), now.get(k), f"{prefix}{k}")]
    return [] if was == now else [(key, was, now)]


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."
