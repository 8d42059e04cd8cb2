"""`POST /ingest/alertmanager` while the database takes nothing: it waits, and nobody else has to."""

from contextlib import ExitStack

import anyio
import anyio.to_thread
import httpx
from sqlalchemy import func, select, text

from notifier.api.deps import Services
from notifier.model import Alert
from tests.master.posting import LATENCY, URL, As, alert, as_, body
from tests.master.test_api import TestClient
from tests.master.world import both

__all__ = ["as_"]
POSTS, READS = 50, 20  # more than there are threads


@both
def test_what_waits_for_the_database_takes_no_thread_from_others(as_: As, services: Services) -> None:
    client = as_()
    answers = anyio.run(posted_while_the_database_is_busy, client, client.app.state.services)
    assert [answer.status_code for answer in answers] == [202] * POSTS
    with services.store.read() as session:
        assert session.scalar(select(func.count()).select_from(Alert)) == POSTS


async def posted_while_the_database_is_busy(client: TestClient, services: Services) -> list[httpx.Response]:
    answers: list[httpx.Response] = []
    transport = httpx.ASGITransport(client.app)
    asking = httpx.AsyncClient(transport=transport, base_url=str(client.base_url), headers=client.headers)

    async def post(n: int) -> None:
        answers.append(await asking.post(URL, json=body(alert({**LATENCY, "n": str(n)}))))

    with anyio.fail_after(25):
        async with asking, anyio.create_task_group() as group:
            with ExitStack() as busy:
                session = busy.enter_context(services.store.write())
                session.connection()
                if services.store.is_postgres:
                    session.execute(text("lock table alerts in exclusive mode"))
                for n in range(POSTS):
                    group.start_soon(post, n)
                for _ in range(READS):  # meanwhile all of them get as far as they can
                    assert (await asking.get("/deliveries")).status_code == 200
                assert answers == []
    return answers
