"""The list of deliveries is answered the same, past the web framework or through it."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from notifier.api import listing
from notifier.api.deps import Services
from tests.api.logbook import Log, ids

As = Callable[..., httpx.Client]
PLAIN = [
    "", "?limit=2", "?state=failed&kind=wecom", "?q=nccl%20timeout", "?q=%E7%A3%81%E7%9B%98", "?q=a+b",
    "?q=body%2b1", "?since=2026-01-01T00:00:00Z", "?until=2026-01-01T00:00:00%2B08:00",
    "?channel=mail&item=custom&limit=500", "?job=job_1&event=evt_1&alert=alr_1",
]  # fmt: skip
OTHERS = [
    "?limit=0", "?limit=501", "?limit=x", "?limit=", "?limit=1&limit=2", "?state=nothing", "?kind=", "?q=",
    "?q=%25%25", "?q=" + "x" * 201, "?since=yesterday", "?since=2026-01-01T00:00:00", "?cursor=zzz",
    "?cursor=" + "x" * 101, "?unknown=1", "?q", "?&", "?q=%ff", "?q=%00", "?channel=%F0%9F%98%80", "?q=a;b",
    "?limit=%EF%BC%91",
]  # fmt: skip


@pytest.fixture(autouse=True)
def filled(services: Services) -> None:
    log = Log(services.store)
    for n in range(12):
        log.add(n)
    log.index()


async def _not_ours(_scope: Any) -> None:
    return None


def told(client: httpx.Client, query: str) -> tuple[int, dict[str, str], bytes]:
    answer = client.get(f"/deliveries{query}")
    return answer.status_code, dict(answer.headers), answer.content


@pytest.mark.parametrize("query", [*PLAIN, *OTHERS])
def test_both_ways_answer_the_same(
    admin: httpx.Client, as_: As, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers = [admin, as_("viewer"), as_("viewer", "default/q"), as_("operator", "other"), as_("publisher")]
    direct = [told(one, query) for one in readers]
    monkeypatch.setattr(listing, "answer", _not_ours)
    assert [told(one, query) for one in readers] == direct
    assert {answer[0] for answer in direct[:-1]} <= ({200} if query in PLAIN else {200, 422})
    assert direct[-1][0] in {403, 422}


@pytest.mark.parametrize("token", ["", "fct_wrong", "fct_\u00e4"])
def test_whoever_is_not_known_hears_so(admin: httpx.Client, token: str) -> None:
    headers = {"Authorization": f"Bearer {token}".encode("latin-1")}
    answer = admin.get("/deliveries", headers=headers)
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")


def test_what_is_plain_goes_past_the_framework(admin: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    went: list[bool] = []

    async def seen(scope: Any) -> Any:
        found = await answer(scope)
        went.append(found is not None)
        return found

    answer = listing.answer
    monkeypatch.setattr(listing, "answer", seen)
    assert len(ids(admin, q="body", limit=5)) == 12
    assert went
    assert all(went)
