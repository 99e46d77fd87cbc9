"""What a class really sends, to be held against what it says that it sends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from trl_envs.rollout.session import Reply, Session


@contextmanager
def fields_sent() -> Iterator[set[frozenset[str]]]:
    """The fields of each action that any session sends meanwhile."""
    sent = set()
    step = Session.step

    def recording(session: Session, action: dict[str, Any]) -> Reply:
        sent.add(frozenset(action))
        return step(session, action)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "step", recording)
        yield sent
