"""Catch's tools and its board in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trl_envs.envs.game import GameEnvironment, tool
from trl_envs.errors import SessionLost

if TYPE_CHECKING:
    from trl_envs.rollout.session import Reply

# OpenSpiel's catch, of which the observation is a flat tensor: open_spiel/games/catch/catch.cc.
ROWS, COLUMNS = 10, 5
ACTIONS = {"left": 0, "stay": 1, "right": 2}


@dataclass(frozen=True)
class Board:
    """Where things are, rows and columns counted from 0 at the top left; the paddle is in the last row."""

    ball_row: int
    ball_column: int
    paddle_column: int

    @classmethod
    def read(cls, cells: list[float]) -> Board:
        """Reads a board in play.

        Args:
            cells: ROWS x COLUMNS numbers, row by row: 1.0 for ball and paddle, else 0.0.

        Raises:
            SessionLost: It isn't a board of this game in play.
        """
        taken = [index for index, cell in enumerate(cells) if cell == 1.0]
        if len(cells) != ROWS * COLUMNS or len(taken) != 2 or not taken[0] < (ROWS - 1) * COLUMNS <= taken[1]:
            raise SessionLost(
                f"the server's board isn't that of catch: {len(cells)} cells, taken {taken}",
                "start the server with OPENSPIEL_GAME=catch",
            )
        return cls(taken[0] // COLUMNS, taken[0] % COLUMNS, taken[1] % COLUMNS)

    def describe(self) -> str:
        """The board in words, columns counted from 1, compact since every move shows it again."""
        distance = self.ball_column - self.paddle_column
        if distance == 0:
            where = "right above the paddle"
        else:
            columns = f"{abs(distance)} column{'s' if abs(distance) > 1 else ''}"
            where = f"{columns} to the {'right' if distance > 0 else 'left'} of the paddle"
        moves = ROWS - 1 - self.ball_row
        return (
            f"Ball: column {self.ball_column + 1}. Paddle: column {self.paddle_column + 1}. "
            f"The ball is {where}. Moves left: {moves}."
        )


class CatchEnv(GameEnvironment):
    """Nine moves to bring the paddle below the ball.

    Facts: `caught` (bool), `moves` (number of moves made).
    """

    _protocols = (frozenset({"action_id", "game_name"}),)

    _legal_actions: tuple[int, ...] = ()

    def _begin(self, reply: Reply) -> str:
        self.episode.facts = {"caught": False, "moves": 0}
        return self._look(reply)

    @tool
    def move(self, direction: str) -> str:
        """Move the paddle one column to the left or to the right. The ball falls by one row.

        Args:
            direction: Where to move: "left" or "right".

        Returns:
            Where ball and paddle are now.
        """
        if direction not in ("left", "right"):
            raise ValueError('direction must be "left" or "right".')
        return self._act(direction)

    @tool
    def stay(self) -> str:
        """Leave the paddle where it is. The ball falls by one row.

        Returns:
            Where ball and paddle are now.
        """
        return self._act("stay")

    def _act(self, name: str) -> str:
        action = ACTIONS[name]
        # The official server takes an illegal action without a word and goes on with some other state.
        if action not in self._legal_actions:
            raise ValueError(f"{name} isn't possible now.")
        reply = self._play({"action_id": action, "game_name": "catch"})
        self.episode.facts["moves"] += 1
        if not reply.done:
            return self._look(reply)
        caught = reply.reward is not None and reply.reward > 0
        self.episode.facts["caught"] = caught
        return "You caught the ball. Game over." if caught else "You missed the ball. Game over."

    def _look(self, reply: Reply) -> str:
        """Reads the board of a game in play."""
        cells, legal = reply.observation.get("info_state"), reply.observation.get("legal_actions")
        if not isinstance(cells, list) or not isinstance(legal, list):
            raise SessionLost(
                f"not an OpenSpiel server: its observation has the fields {sorted(reply.observation)}",
                "check the address of this environment",
            )
        self._legal_actions = tuple(legal)
        return Board.read(cells).describe()
