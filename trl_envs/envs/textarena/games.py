"""textarena's games, many of a kind in one process: what is slow to load is loaded once, and a seed is a game."""

from __future__ import annotations

import copy
import importlib
import inspect
import random
import threading
from typing import Any

from trl_envs.envs.textarena.settings import KEYWORD_PREFIX, GameSettings
from trl_envs.envs.textarena.words import nltk_without_network
from trl_envs.errors import ConfigError

# textarena draws from the generator of the module `random`, which all sessions of the process share.
_DRAWING = threading.Lock()


class GameFactory:
    """Makes games of one kind.

    Building a Wordle reads four dictionaries, which takes seconds, and what is read never changes. So one game is built
    here, is never played, and is copied for each episode, which then gets its state and its wrappers anew.

    Args:
        settings: Which game.

    Raises:
        ConfigError: The game doesn't take its arguments, or has no words to draw from.
    """

    def __init__(self, settings: GameSettings) -> None:
        self.settings = settings
        with nltk_without_network():
            import textarena
            from textarena.envs.registration import ENV_REGISTRY

            game = textarena.make(settings.env_id, **_keywords(settings))
        self._wrappers = ENV_REGISTRY[settings.env_id].default_wrappers or []
        while isinstance(game, textarena.Wrapper):
            game = game.env
        self._unplayed = game
        if getattr(game, "word_list", None) == []:
            raise ConfigError(
                f"{settings.env_id} has no secret words of {game.word_length} letters: the list that ships with "
                "trl-env has words of five",
                "install NLTK's data: python -m nltk.downloader words averaged_perceptron_tagger_eng",
            )

    def start(self, seed: int | None) -> Any:
        """A new game, ready for its first move.

        Args:
            seed: Decides all that is drawn, whatever other sessions do; None is a random game.

        Returns:
            textarena's environment with its usual wrappers.
        """
        game: Any = copy.copy(self._unplayed)
        for wrapper in self._wrappers:
            game = wrapper(game)
        with _DRAWING:
            before = random.getstate()
            try:
                random.seed(seed)
                game.reset(num_players=1)
            finally:
                random.setstate(before)
        return game


def _keywords(settings: GameSettings) -> dict[str, Any]:
    """The arguments for the game's constructor.

    Raises:
        ConfigError: It has no such argument.
    """
    from textarena.envs.registration import ENV_REGISTRY

    module, _, name = ENV_REGISTRY[settings.env_id].entry_point.partition(":")
    taken = list(inspect.signature(getattr(importlib.import_module(module), name)).parameters)
    keywords = dict(settings.keywords)
    for keyword in keywords:
        if keyword not in taken:
            raise ConfigError(
                f"{settings.env_id} takes no {keyword}, only {', '.join(taken)}",
                f"unset {KEYWORD_PREFIX}{keyword.upper()}",
            )
    if settings.max_turns is not None and "max_turns" in taken:
        keywords.setdefault("max_turns", settings.max_turns)
    return keywords
