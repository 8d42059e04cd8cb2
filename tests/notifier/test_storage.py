"""What a commit promises on SQLite: to outlast the machine's power, unless it need not last."""

from sqlalchemy import text

from notifier.storage import Store, make_engine

FULL, NORMAL = 2, 1


def test_only_what_need_not_last_is_not_synced(sqlite_url: str) -> None:
    store = Store(make_engine(sqlite_url))
    for lasts in (True, False, True, False, True):
        with store.write(lasts=lasts) as session:
            assert session.scalar(text("pragma synchronous")) == (FULL if lasts else NORMAL)
            session.execute(
                text("insert or replace into meta values ('lasts', :lasts)"), {"lasts": str(lasts)}
            )
        with Store(make_engine(sqlite_url)).read() as session:  # others see it all the same
            assert session.scalar(text("select value from meta where key = 'lasts'")) == str(lasts)
    store.engine.dispose()
