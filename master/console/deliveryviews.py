"""What the pages about deliveries show."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from master.console.show import duration, tone
from master.console.words import Translate
from notifier.auth import Principal
from notifier.deliveries import Filters, FullDeliveryDocument
from notifier.model import Channel

SPANS = {"1h": timedelta(hours=1), "24h": timedelta(days=1), "7d": timedelta(days=7)}
MAX_CHOICES = 200


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """What the visitor filters by, as it stands in the address."""

    job: str | None = None
    channel: str | None = None
    item: str | None = None
    state: str | None = None
    last: str | None = None
    q: str | None = None

    @property
    def is_any(self) -> bool:
        return any(vars(self).values())

    def filters(self, now: datetime) -> Filters:
        span = SPANS.get(self.last or "")
        return Filters(
            job=self.job or None,
            channel=self.channel or None,
            item=self.item or None,
            state=self.state or None,
            since=now - span if span else None,
            q=self.q or None,
        )


@dataclass(frozen=True)
class Step:
    """One station in the life of a delivery."""

    word: str
    when: str
    tone: str = ""


def channel_names(session: Session, principal: Principal) -> Sequence[str]:
    rows = select(Channel.name).where(principal.only(Channel.pool, Channel.queue)).distinct()
    return session.scalars(rows.order_by(Channel.name).limit(MAX_CHOICES)).all()


def steps_of(delivery: FullDeliveryDocument, t: Translate, at: str) -> list[Step]:
    """Accepted → sent → answered → where it stands; the middle ones as times after the alert."""
    steps = [Step(t("accepted"), at, "ok")]
    if delivery.attempts:
        last = delivery.attempts[-1]
        steps.append(Step(t("sent"), _after(delivery, last.started_at), "ok"))
        steps.append(Step(t("answered"), _after(delivery, last.finished_at), tone(last.outcome or "unknown")))
    steps.append(Step(t("final"), delivery.state, tone(delivery.state)))
    return steps


def _after(delivery: FullDeliveryDocument, moment: datetime | None) -> str:
    return "–" if moment is None else f"+{duration((moment - delivery.created_at).total_seconds())}"
