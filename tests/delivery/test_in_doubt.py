"""The connection to PostgreSQL is lost in the commit of an intent or an outcome: told once, and logged so."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from notifier.storage import Store, make_engine
from tests.losing import Losing, losing

if TYPE_CHECKING:
    from tests.delivery.conftest import House

pytestmark = [pytest.mark.timeout(60), pytest.mark.parametrize("engine_name", ["postgres"], indirect=True)]
INTENT, OUTCOME = b"INSERT INTO attempts", b"UPDATE attempts"


@pytest.fixture
def way(database_url: str) -> Iterator[Losing]:
    with losing(database_url) as found:
        yield found


@pytest.fixture
def far(way: Losing, house: "House") -> Iterator["House"]:
    """The same house, whose engine's connections may be lost."""
    engine = make_engine(way.url)
    yield replace(house, store=Store(engine))
    engine.dispose()


@pytest.mark.parametrize("is_kept", [True, False])
@pytest.mark.parametrize("lost", [INTENT, OUTCOME], ids=["intent", "outcome"])
@pytest.mark.parametrize("kind", ["webhook", "dingtalk"])  # with others, and by itself
def test_a_lost_commit_makes_no_copy_and_leaves_no_open_end(
    way: Losing, far: "House", house: "House", kind: str, lost: bytes, is_kept: bool
) -> None:
    channel = house.channel("c", kind)
    way.lose(is_kept, after=lost)
    ids = [house.alert(channel, title=f"{n}")[0] for n in range(3)]
    with far.working():
        house.told(*ids)
    assert way.lost == 1
    attempts = [house.attempts(one) for one in ids]
    assert [[(one.n, one.outcome, one.possible_duplicate) for one in each] for each in attempts] == [
        [(1, "delivered", False)]
    ] * 3
    assert len(house.providers.messages(accepted=True)) == 3
