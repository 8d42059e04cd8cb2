"""`faultcast doctor`: one look at everything of this machine that Faultcast stands on, each with its mend."""

import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.metadata import version
from pathlib import Path

from cryptography import x509
from pydantic import SecretStr
from sqlalchemy import func, make_url, select
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.orm import Session

from master import checks
from master.cli.errors import CommandError
from master.datadir import ready
from master.doctorwords import NOT_SET, STRANGER, WHOSE, words
from master.lifecycle import FINAL
from master.model import Job, Node
from notifier import reach, strays
from notifier.auth import ADMIN_FILE
from notifier.clock import utcnow
from notifier.migrations import head, is_older, revision
from notifier.model import Channel, Delivery, Meta
from notifier.presence import living
from notifier.secretbox import CHECK, KEY_FILE, open_box
from notifier.settings import DATABASE_NAME, Settings, SettingsError
from notifier.storage import Store, make_engine

OK, WARN, FAIL = "ok", "warn", "fail"
SKEW_S, SKEW_BAD_S = 2.0, 30.0
SOON = timedelta(days=14)
SILENT = timedelta(minutes=2)
OTHERS_READ = 0o077
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Finding:
    """One line of the doctor's word."""

    level: str
    what: str
    detail: str
    mend: str = ""


class Doctor:
    """Looks at one thing after another; a look that fails is a finding, and ends nothing else."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.language = settings.language

    def look(self) -> Iterator[Finding]:
        yield self.say(
            OK, "versions", "versions",
            faultcast=version("faultcast"), python=platform.python_version(), head=head(),
        )  # fmt: skip
        yield from self._data_dir()
        yield from self._database()
        yield self._doorbell()
        yield from self._outside()
        yield from self._tls()

    def say(self, level: str, what: str, key: str, **values: object) -> Finding:
        return Finding(level, what, *words(self.language, key, values))

    def clock(self, what: str, skew_s: float) -> Finding:
        """How far a clock is from ours."""
        level = OK if abs(skew_s) < SKEW_S else WARN if abs(skew_s) < SKEW_BAD_S else FAIL
        shown, whose = f"{abs(skew_s):.1f}", WHOSE[what][self.language]
        return self.say(level, "clock", "clock" if level == OK else "clock_off", skew=shown, whose=whose)

    def _data_dir(self) -> Iterator[Finding]:
        folder = self._settings.data_dir
        if not folder.exists():
            yield self.say(FAIL, "data_dir", "no_data_dir", folder=folder)
            return
        try:
            is_open = bool(ready(folder))
        except CommandError as error:
            yield self.say(FAIL, "data_dir", "wrong", said=error)
            return
        yield (
            self.say(WARN, "data_dir", "open_to_others", path=folder)
            if is_open
            else self.say(OK, "data_dir", "data_dir", folder=folder)
        )
        for name in (KEY_FILE, ADMIN_FILE, DATABASE_NAME):
            path = folder / name
            if path.exists() and path.stat().st_mode & OTHERS_READ and is_open:
                yield self.say(FAIL, "data_dir", "open_to_others", path=path)
        free = checks.free_space(folder)
        level = OK if free >= checks.LITTLE_DISK else FAIL
        yield self.say(level, "disk", "disk" if level == OK else "disk_low", free=free // 2**20)

    def _database(self) -> Iterator[Finding]:
        settings = self._settings
        kind = "SQLite" if settings.is_sqlite else "PostgreSQL"
        if settings.is_sqlite and not Path(make_url(settings.sqlalchemy_url).database or "").exists():
            yield self._old(None)
            return
        store = Store(make_engine(settings.sqlalchemy_url))
        try:
            with store.engine.connect() as connection:
                found = revision(connection)
            if is_older(found):
                yield self._old(found)
                return
            yield self.say(OK, "database", "database", kind=kind, revision=found)
            yield from self._in_database(store)
        except SQLAlchemyError as error:
            why = (
                str(error.orig).strip().splitlines()[0]
                if isinstance(error, DBAPIError)
                else type(error).__name__
            )
            yield self.say(FAIL, "database", "database_away", kind=kind, why=why)
        finally:
            store.engine.dispose()

    def _old(self, found: str | None) -> Finding:
        key = "database_empty" if found is None else "database_old"
        return self.say(FAIL, "database", key, found=found, head=head())

    def _in_database(self, store: Store) -> Iterator[Finding]:
        yield self._writes(store)
        yield self._key(store)
        with store.read() as session:
            if store.is_postgres:
                yield self.clock("database", (store.now(session) - utcnow()).total_seconds())
            yield from self._workers(session, store)
            yield from self._channels(session)
            yield self._rules(session, store.now(session))
            yield from self._agents(session, store)
        late = checks.leaderless(store)
        yield (
            self.say(WARN, "leader", "no_leader", pools=", ".join(late))
            if late
            else self.say(OK, "leader", "leader")
        )

    def _writes(self, store: Store) -> Finding:
        try:
            checks.writes(store)
        except SQLAlchemyError as error:
            return self.say(FAIL, "writes", "no_writes", why=type(error).__name__)
        return self.say(OK, "writes", "writes")

    def _key(self, store: Store) -> Finding:
        """Without making one, as a start would."""
        with store.read() as session:
            if session.get(Meta, CHECK) is None:
                return self.say(OK, "key", "key_unused")
        try:
            open_box(self._settings, store)
        except SettingsError as error:
            return self.say(FAIL, "key", "wrong", said=error)
        return self.say(OK, "key", "key")

    def _workers(self, session: Session, store: Store) -> Iterator[Finding]:
        there = living(session, store.now(session))
        count, late_s = checks.at_work(store)
        hosts = ", ".join(sorted({worker.host for worker in there}))
        if count and late_s is None:
            yield self.say(OK, "workers", "workers", count=len(there), hosts=hosts)
        if not count:
            yield self.say(WARN if late_s is None else FAIL, "workers", "no_workers")
        if late_s is not None:
            yield self.say(FAIL, "workers", "workers_late", late_s=f"{late_s:.0f}")
        releases = sorted({worker.version for worker in there})
        if len(releases) > 1:
            yield self.say(WARN, "workers", "versions_differ", versions=", ".join(releases))
        if there:
            yield self.clock("workers", max((worker.behind_s for worker in there), key=abs))

    def _channels(self, session: Session) -> Iterator[Finding]:
        broken = session.scalars(select(Channel).where(Channel.health == "broken").order_by(Channel.id)).all()
        if not broken:
            count = session.scalar(select(func.count()).select_from(Channel))
            yield self.say(OK, "channels", "channels", count=count)
            return
        held = session.scalar(select(func.count()).where(Delivery.state == "held"))
        names = ", ".join("/".join(filter(None, (row.pool, row.queue, row.name))) for row in broken[:10])
        yield self.say(WARN, "channels", "channels_broken", names=names, held=held)

    def _rules(self, session: Session, now: datetime) -> Finding:
        rows = session.execute(select(Job.id, Job.pool, Job.queue).where(Job.status.not_in(FINAL)))
        found = strays.all_of(session, {job: (pool, queue) for job, pool, queue in rows}, now)
        if not found:
            return self.say(OK, "rules", "rules")
        said = "; ".join(f"{owner}: {', '.join(names)}" for owner, names in list(found.items())[:10])
        return self.say(WARN, "rules", "rules_strays", said=said)

    def _agents(self, session: Session, store: Store) -> Iterator[Finding]:
        nodes = session.scalars(select(Node).where(Node.agent_seen_at.is_not(None)).order_by(Node.name)).all()
        now = store.now(session)
        silent = [node.name for node in nodes if node.agent_seen_at and now - node.agent_seen_at > SILENT]
        if silent:
            yield self.say(WARN, "agents", "agents_silent", names=", ".join(silent[:10]))
        else:
            yield self.say(OK, "agents", "agents", count=len(nodes))

    def _doorbell(self) -> Finding:
        if self._settings.redis_url is None:
            return self.say(OK, "doorbell", "doorbell_embedded")
        found = checks.doorbell(self._settings)
        if found.ok:
            return self.say(OK, "doorbell", "doorbell")
        return self.say(WARN, "doorbell", "doorbell_away", why=found.detail)

    def _outside(self) -> Iterator[Finding]:
        """What messages and links go through. No address of these is shown: they may hold secrets."""
        settings = self._settings
        mail = settings.smtp_url
        yield self._reached("mail", "SMTP_URL", None if mail is None else lambda: reach.mail_server(settings))
        dog, proxy, public = settings.watchdog_url, settings.https_proxy, settings.public_url
        yield self._reached("watchdog", "WATCHDOG_URL", None if dog is None else lambda: self._port(dog))
        if proxy is not None:
            yield self._reached("proxy", "HTTPS_PROXY", lambda: self._port(proxy))
        yield self._reached(
            "public_url", "PUBLIC_URL", None if public is None else lambda: self._public(public)
        )

    def _port(self, url: SecretStr) -> str:
        return reach.port(self._settings, url.get_secret_value())

    def _public(self, url: str) -> str:
        page = reach.page(self._settings, f"{url}/healthz")
        if page.why or page.body == b"ok\n":
            return page.why
        return STRANGER[self.language].format(status=page.status)

    def _reached(self, what: str, name: str, tried: Callable[[], str] | None) -> Finding:
        setting = f"FAULTCAST_{name}"
        if tried is None:
            so, mend = NOT_SET[setting][self.language]
            level = WARN if what == "watchdog" else OK
            return self.say(level, what, "not_set", setting=setting, so=so, mend=mend)
        if why := tried():
            level = FAIL if what == "mail" else WARN
            return self.say(level, what, "not_reached", why=why, setting=setting)
        return self.say(OK, what, "reached", setting=setting)

    def _tls(self) -> Iterator[Finding]:
        settings = self._settings
        if settings.tls_cert is None:
            if settings.host not in LOOPBACK:
                yield self.say(WARN, "tls", "no_tls", bind=settings.bind)
            return
        until = ends_at(settings.tls_cert)
        level = FAIL if until < utcnow() else WARN if until < utcnow() + SOON else OK
        key = "certificate" if level == OK else "certificate_ends"
        yield self.say(level, "tls", key, until=f"{until:%Y-%m-%d}")


def ends_at(certificate: Path) -> datetime:
    """When the first certificate of a PEM file ends."""
    return x509.load_pem_x509_certificates(certificate.read_bytes())[0].not_valid_after_utc
