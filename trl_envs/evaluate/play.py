"""Playing by hand, a child at the terminal: `python -m trl_envs.evaluate.play RUN_DIR --env NAME --seed N`.

It reads config.yaml and plan.json of the run directory, and plays one episode on the server that runs already, through
the environment class, tools and reward terms of training. Exit code 0 when the episode is over or the person has had
enough, 130 at the end of the input.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from trl_envs.agent.clock import EnvironmentClock
from trl_envs.agent.dataset import messages
from trl_envs.agent.environments import build_factories
from trl_envs.agent.policies import Move, Policy, scripted_player
from trl_envs.agent.targets import load_target
from trl_envs.agent.terms import RewardTerm, build_terms
from trl_envs.config.schema import EnvConfig, TrainConfig
from trl_envs.config.store import load_config
from trl_envs.config.token import token_for
from trl_envs.envs.game import end_episode
from trl_envs.errors import SessionLost, TrlEnvError
from trl_envs.evaluate.batches import score
from trl_envs.evaluate.loop import Rollout, first_messages, reset
from trl_envs.evaluate.play_drawing import Picture
from trl_envs.evaluate.play_input import parse_move, usage
from trl_envs.evaluate.scripted import LONGEST_EPISODE, make_move
from trl_envs.evaluate.summary import WIN_FACTS
from trl_envs.evaluate.tools import async_loop, bound_tools
from trl_envs.paths import make_importable

END_OF_INPUT = 130
HELP, QUIT = ("help", "?"), ("quit", "exit", "q")


class Enough(Exception):
    """The person stops before the game does.

    Args:
        exit_code: Of the program.
    """

    def __init__(self, exit_code: int) -> None:
        super().__init__()
        self.exit_code = exit_code


def main(arguments: list[str]) -> int:
    """Plays an episode; the exit code is the error's, which is printed."""
    parser = argparse.ArgumentParser(prog="python -m trl_envs.evaluate.play")
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--env", required=True, help="name of the environment in the recipe")
    parser.add_argument("--seed", type=int, required=True, help="of the episode")
    parser.add_argument("--policy", choices=("random", "solver"), help="who plays; a person by default")
    asked = parser.parse_args(arguments)
    console = Console()
    try:
        config = load_config(asked.run_dir / "config.yaml")
        plan = json.loads((asked.run_dir / "plan.json").read_text(encoding="utf-8"))
        make_importable(plan["import_folders"])
        with ExitStack() as stack:
            table = Table(asked.env, config, plan, console, stack)
            table.play(asked.seed, table.policy(asked.policy) if asked.policy else None)
        return 0
    except Enough as enough:
        return enough.exit_code
    except TrlEnvError as error:
        hint = f"\n\nhint: {error.hint}" if error.hint else ""
        print(f"error: {error.message}{hint}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        # Whoever read has seen enough, as `head` has.
        sys.stderr.close()
        return 0


class Table:
    """One environment, its terms, and the console on which it is shown.

    Args:
        name: The environment's name in the recipe.
        config: The run's config.
        plan: The run's plan.json.
        console: Where the game is shown.
        stack: Ends what has to be ended.

    Raises:
        ConfigError: A name or a value of the config that can't be used.
    """

    def __init__(
        self, name: str, config: TrainConfig, plan: dict[str, Any], console: Console, stack: ExitStack
    ) -> None:
        self._name = name
        self._env: EnvConfig = config.envs[name]
        self._terms = build_terms({name: self._env})
        server = plan["environments"][name]
        token = token_for(config.server) if server["token"] else None
        envs, urls = {name: self._env}, {name: tuple(server["urls"])}
        self._environment = build_factories(envs, urls, config.rollout, {name: token}, EnvironmentClock())[name]()
        stack.callback(end_episode, self._environment)
        self.loop = stack.enter_context(async_loop())
        self._console = console
        self._picture = Picture(self._environment, coloured=console.is_terminal and console.color_system is not None)
        self._rewards: dict[str, float | None] = {}

    def policy(self, name: str) -> Policy:
        """The scripted player `random` or `solver`.

        Raises:
            ConfigError: The game has no solver.
        """
        target = load_target(self._env.environment["_target_"], f"envs.{self._name}.environment._target_")
        return scripted_player(target, name, self._environment)  # type: ignore[arg-type]

    def play(self, seed: int, policy: Policy | None) -> None:
        """Plays an episode to its end.

        Args:
            seed: Of the episode.
            policy: Who plays; None asks the person at the terminal.

        Raises:
            Enough: The person stops.
            TrlEnvError: A reward term failed, or the session was lost.
        """
        row = {"prompt": messages(self._env), "environment": self._name, "seed": seed}
        rollout = Rollout(row, self._environment, bound_tools(self._environment))
        self._say(f"{self._name}, seed {seed}")
        observation = reset(rollout)
        rollout.prompt = first_messages(row, observation)
        self._check_lost(rollout)
        for message in rollout.prompt:
            self._show(str(message["content"]), rollout, first=True)
        if policy is None:
            self._say(f"\nYour tools (help shows them again, quit ends the game):\n{usage(rollout.tools)}")
        self._show_rewards(rollout)
        rng, text = random.Random(seed), "" if observation is None else str(observation)
        choose = self._asking(rollout) if policy is None else lambda seen: policy(seen, rollout.episode, rng)
        while not rollout.episode.done and rollout.rounds < LONGEST_EPISODE and (move := choose(text)) is not None:
            if policy is not None:
                self._say(f"\n> {described(move)}")
            text = make_move(rollout, move, self.loop)
            self._check_lost(rollout)
            # A person reads the error alone, not how the model gets it.
            failed = rollout.episode.events[-1].error if rollout.episode.events else None
            self._show(failed or text, rollout)
            self._show_rewards(rollout)
        self._show_end(rollout)

    def _asking(self, rollout: Rollout) -> Callable[[str], Move]:
        def ask(text: str) -> Move:
            while True:
                self._console.print("\n> ", end="", markup=False, highlight=False)
                line = sys.stdin.readline()
                word = line.strip()
                if not sys.stdin.isatty():
                    # A terminal shows what is typed.
                    self._say(word)
                if not line or word.lower() in QUIT:
                    self._say("" if line else "\nThe input is at its end.")
                    raise Enough(0 if line else END_OF_INPUT)
                if not word or word.lower() in HELP:
                    self._say(usage(rollout.tools))
                    continue
                try:
                    return parse_move(line, rollout.tools)
                except ValueError as error:
                    self._say(str(error))

        return ask

    def _check_lost(self, rollout: Rollout) -> None:
        if rollout.episode.lost is not None:
            raise SessionLost(f"the session was lost: {rollout.episode.lost}", "look at the environment's server")

    def _show(self, text: str, rollout: Rollout, *, first: bool = False) -> None:
        """A text and what can be drawn of it: behind the prompt, and before what a tool says."""
        rest, drawing = self._picture.take(text, rollout.episode)
        if rest and first:
            self._say(rest)
        if drawing is not None:
            self._console.print(drawing, soft_wrap=True)
        if rest and not first:
            self._say(rest)

    def _show_rewards(self, rollout: Rollout) -> None:
        """Every term as it would be scored now, and what the last move added."""
        if not self._terms:
            return
        scores = score([rollout], self._terms, self.loop)[0]
        line = reward_line(self._terms, scores, self._rewards)
        self._console.print(line, soft_wrap=True)
        self._rewards = scores

    def _show_end(self, rollout: Rollout) -> None:
        facts = rollout.episode.facts
        won = next((bool(facts[fact]) for fact in WIN_FACTS if fact in facts), None)
        outcome = "" if won is None else ": won" if won else ": not won"
        calls = f"{rollout.tool_calls} tool call{'' if rollout.tool_calls == 1 else 's'}"
        self._say(f"\n{'game over' if rollout.episode.done else 'stopped'}{outcome}, {calls}")

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def described(move: Move) -> str:
    """A tool call as one would write it."""
    name, arguments = move
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


def reward_line(terms: Sequence[RewardTerm], scores: dict[str, float | None], before: dict[str, float | None]) -> Text:
    """`rewards  win 0.00  partial 0.20 (+0.10)  sum 0.20`.

    Args:
        terms: Of the environment.
        scores: Unweighted value by full name; None is unscored.
        before: The same before the last move; empty at the start.
    """
    line = Text("rewards", "dim")
    for term in terms:
        value, earlier = scores[term.full_name], before.get(term.full_name)
        line.append(f"  {term.name} " + ("unscored" if value is None else f"{value:.2f}"), "cyan")
        if value is not None and earlier is not None and abs(value - earlier) >= 0.005:
            line.append(f" ({value - earlier:+.2f})", "green" if value > earlier else "red")
    total = sum(term.weight * value for term in terms if (value := scores[term.full_name]) is not None)
    return line.append(f"  weighted sum {total:.2f}", "bold")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
