"""Desks for the cases that belong to some of our kinds only."""

from collections.abc import Callable

import pytest

from channels.base import Message
from channels.contract import Desk, Subject, make_message
from tests.contract import subjects


@pytest.fixture
def message() -> Callable[..., Message]:
    return make_message


@pytest.fixture
def desks() -> Callable[[str], Desk]:
    """`desks("wecom")` sends to a played robot of that kind."""

    def desk(kind: str) -> Desk:
        found: Subject = getattr(subjects, kind.upper())
        return Desk(found)

    return desk
