"""Whatever creates something takes an `Idempotency-Key`: asked for twice with one key it is done once."""

from typing import Any

import pytest
from fastapi.routing import APIRoute
from sqlalchemy import func, select

from notifier.idempotency import HEADER, REPLAYED
from notifier.model import Channel, Idempotency, Oncall
from notifier.storage import Base, Store
from tests.api.logbook import Log
from tests.master.test_api import TestClient, admin, as_
from tests.master.test_hostile_bodies import HOOK, ROTA
from tests.master.world import World, both

__all__ = ["admin", "as_"]
PREFIX = "/api/v1"
STANDS_IN = {"from": "2037-01-01T00:00:00Z", "until": "2037-01-02T00:00:00Z", "person": "li"}
CREATES: dict[str, Any] = {
    "/alerts": {"title": "t", "channels": ["ding"]},
    "/channels": {"name": "hook", "kind": "webhook", "config": HOOK},
    "/deliveries/resend": {"filter": {"state": "failed"}},
    "/deliveries/{delivery_id}/resend": None,
    "/jobs": {"name": "train", "command": "python train.py"},
    "/oncall": {**ROTA, "name": "day"},
    "/oncall/{list_name}/overrides": STANDS_IN,
    "/silences": {"match": {"item": "jobFT"}, "duration_s": 60},
    "/templates": {"text": "{{ what }}", "item": "jobFT"},
    "/tokens": {"name": "n", "role": "viewer"},
}
# Asked for twice, these do what asking once does, or are meant to be done each time.
OTHERS = {
    "/agent/reports": "known again by number",
    "/alerts/{alert_id}/ack": "the first stays",
    "/channels/{name}/test": "a try each time",
    "/ingest/alertmanager": "known again by fingerprint",
    "/jobs/{job_id}/injections": "changes nothing",
    "/jobs/{job_id}/stacks": "a look each time",
    "/jobs/{job_id}/stop": "it is stopped",
    "/nodes/{name}/isolate": "it is isolated",
    "/nodes/{name}/restore": "it is restored",
    "/templates/preview": "changes nothing",
}


def test_every_post_is_known(admin: TestClient) -> None:
    routes = [one for one in admin.app.routes if isinstance(one, APIRoute)]  # type: ignore[attr-defined]
    posts = {one.path.removeprefix(PREFIX): one for one in routes if "POST" in one.methods}
    keyed = {
        path for path, one in posts.items()
        if any(header.alias == HEADER for header in one.dependant.header_params)
    }  # fmt: skip
    assert (keyed, posts.keys() - keyed - {"/ack/{token}"}) == (CREATES.keys(), OTHERS.keys())


def there_is(store: Store) -> dict[str, Any]:
    """How many rows of everything, and what on-call lists say."""
    with store.read() as session:
        found: dict[str, Any] = {
            name: session.scalar(select(func.count()).select_from(table))
            for name, table in Base.metadata.tables.items() if name != Idempotency.__tablename__
        }  # fmt: skip
        return {**found, "lists": session.scalars(select(Oncall.spec)).all()}


@both
@pytest.mark.parametrize("path", CREATES)
def test_it_is_done_once(world: World, admin: TestClient, path: str) -> None:
    store = world.services.store
    with store.read() as session:
        channel = session.scalars(select(Channel.id)).one()
    failed = Log(store).add(1, state="failed", channel_id=channel)
    assert admin.post("/oncall", json=ROTA).status_code == 201
    where, before = path.format(delivery_id=failed, list_name="night"), there_is(store)
    first = admin.post(where, json=CREATES[path], headers={HEADER: "k"})
    after = there_is(store)
    second = admin.post(where, json=CREATES[path], headers={HEADER: "k"})
    assert (first.is_success, after != before, there_is(store) == after) == (True, True, True)
    assert (second.status_code, second.json()) == (first.status_code, first.json())
    assert (second.headers[REPLAYED], second.headers.get("ETag")) == ("true", first.headers.get("ETag"))
