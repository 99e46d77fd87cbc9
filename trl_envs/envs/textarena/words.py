"""Wordle's words, without a network: NLTK's own data where it is installed, else a list that ships with trl-env.

The list was written for this project and lies in `nltk_data/`, laid out as NLTK lays out its corpus `words` and its
English tagger: `en-basic` are the five-letter nouns that secrets are drawn from, `en` are those and other common words,
and the tagger calls every word a noun. Guesses are also looked up in the dictionaries that textarena brings along.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SHIPPED = Path(__file__).parent / "nltk_data"
# What textarena/envs/Wordle/env.py reads.
NLTK_RESOURCES = ("corpora/words", "taggers/averaged_perceptron_tagger_eng")

_LOADING = threading.Lock()


@functools.cache
def shipped_words(name: str = "en") -> tuple[str, ...]:
    """The list that ships with trl-env, in the order of its file.

    Args:
        name: `en` for all words, `en-basic` for the secrets alone.
    """
    return tuple((SHIPPED / "corpora" / "words" / name).read_text(encoding="utf-8").split())


@functools.cache
def textarena_words(length: int) -> tuple[str, ...]:
    """Words of one length in textarena's American dictionary, sorted. Reads its file and imports nothing.

    Args:
        length: Number of letters.

    Returns:
        Base forms only, without proper nouns; nothing if textarena isn't installed.
    """
    package = importlib.util.find_spec("textarena")
    if package is None or not package.submodule_search_locations:
        return ()
    dictionary = Path(package.submodule_search_locations[0]) / "envs" / "utils" / "data" / "en_US.dic"
    # The first line is a count; behind a slash are the flags of the word's affixes.
    words = {line.partition("/")[0] for line in dictionary.read_text(encoding="utf-8").splitlines()[1:]}
    return tuple(sorted(w for w in words if len(w) == length and w.isascii() and w.isalpha() and w.islower()))


@contextmanager
def nltk_without_network() -> Iterator[None]:
    """NLTK finds the words and asks no server for them while textarena is imported and builds a Wordle.

    textarena calls `nltk.download` each time it builds a dictionary (textarena/envs/utils/word_lists.py), even when the
    words are there. The shipped data stays on NLTK's path afterwards, since its readers open their files late.
    """
    nltk = _nltk()
    with _LOADING:
        if not all(_installed(resource) for resource in NLTK_RESOURCES):
            # In front: half of NLTK's data would be mixed with half of ours otherwise.
            nltk.data.path.insert(0, str(SHIPPED))
        download = nltk.download
        nltk.download = _download_nothing
        try:
            yield
        finally:
            nltk.download = download


def _installed(resource: str) -> bool:
    try:
        _nltk().data.find(resource)
    except LookupError:
        return False
    return True


def _nltk() -> Any:
    # Late: policies read the shipped list, and NLTK takes seconds to import.
    return importlib.import_module("nltk")


def _download_nothing(*_: Any, **__: Any) -> bool:
    return True
