"""Scripted players of wordle."""

from __future__ import annotations

import collections
import random
import string
from collections.abc import Iterable, Sequence
from typing import Any

from trl_envs.envs.episode import Episode
from trl_envs.envs.textarena.words import shipped_words, textarena_words
from trl_envs.envs.wordle.environment import FEEDBACK

Move = tuple[str, dict[str, Any]]


def random_policy(observation: str, episode: Episode, rng: random.Random) -> Move | None:
    """A common word or, half of the time, any letters, which are seldom a word."""
    if episode.done or episode.lost is not None:
        return None
    length = episode.facts["letters"]
    words = [word for word in shipped_words() if len(word) == length]
    word = rng.choice(words) if words and rng.random() < 0.5 else "".join(rng.choices(string.ascii_lowercase, k=length))
    return "guess", {"guess": f"[{word}]"}


def solver(observation: str, episode: Episode, rng: random.Random) -> Move | None:
    """The likeliest word that agrees with all feedback so far.

    Secrets of the shipped list come first, then its other words, then textarena's dictionary, which is what is left
    where the server draws from NLTK's own list.
    """
    if episode.done or episode.lost is not None:
        return None
    tried = {str(event.arguments.get("guess", "")).strip(" []").lower() for event in episode.events}
    known = [(match[1].replace(" ", "").lower(), match[2].replace(" ", "")) for match in _feedback(episode)]
    length = episode.facts["letters"]
    for words in (shipped_words("en-basic"), shipped_words(), textarena_words(length)):
        possible = [
            word
            for word in words
            if len(word) == length and word not in tried and all(colours(word, g) == c for g, c in known)
        ]
        if possible:
            return "guess", {"guess": f"[{_likeliest(possible)}]"}
    return None


def explain(observation: str, episode: Episode, move: Move) -> str:
    """Why the solver makes the move: what the feedback says, letter by letter."""
    word = str(move[1]["guess"]).strip("[]")
    known = [(match[1].replace(" ", "").lower(), match[2].replace(" ", "")) for match in _feedback(episode)]
    if not known:
        return f"Nothing is known yet, so I begin with common letters: {word}."
    marks = [
        (at, letter, colour)
        for guess, found in known
        for at, (letter, colour) in enumerate(zip(guess, found, strict=True), 1)
    ]
    placed = {letter: f"{letter} at {at}" for at, letter, colour in marks if colour == "G"}
    elsewhere = {letter for _, letter, colour in marks if colour == "Y"} - placed.keys()
    absent = {letter for _, letter, colour in marks if colour == "X"} - placed.keys() - elsewhere
    facts = (("in place", placed.values()), ("in the word", elsewhere), ("not in it", absent))
    said = "; ".join(f"{what}: {', '.join(sorted(letters))}" for what, letters in facts if letters)
    return f"{said[0].upper()}{said[1:]}. {word} fits."


def colours(secret: str, guess: str) -> str:
    """Wordle's feedback: G in place, Y elsewhere in the word, X not in it; a letter counts as often as it is there."""
    left = collections.Counter(s for s, g in zip(secret, guess, strict=True) if s != g)
    found = []
    for ours, theirs in zip(secret, guess, strict=True):
        if ours == theirs:
            found.append("G")
        elif left[theirs] > 0:
            left[theirs] -= 1
            found.append("Y")
        else:
            found.append("X")
    return "".join(found)


def _feedback(episode: Episode) -> Iterable[Any]:
    return (match for event in episode.events if event.result and (match := FEEDBACK.search(event.result)))


def _likeliest(words: Sequence[str]) -> str:
    """The word whose letters, and whose letters in their places, most of the words share."""
    anywhere = collections.Counter(letter for word in words for letter in set(word))
    placed = collections.Counter(pair for word in words for pair in enumerate(word))
    return max(words, key=lambda word: sum(anywhere[c] for c in set(word)) + sum(placed[p] for p in enumerate(word)))
