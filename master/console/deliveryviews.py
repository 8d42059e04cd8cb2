"""What the pages about deliveries show."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from master.console.show import duration, tone
from master.console.words import Translate
from notifier.auth import Principal
from notifier.clock import rfc3339
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

    def query(self, now: datetime) -> dict[str, str]:
        """The same as the API has it."""
        found = {name: value for name, value in vars(self.filters(now)).items() if value is not None}
        return {name: rfc3339(one) if isinstance(one, datetime) else one for name, one in found.items()}

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
    """Accepted → claimed → sent → answered → where it stands; each with what it took after the one before."""
    steps, known = [Step(t("accepted"), at, "ok")], delivery.steps
    if known.sent_at is not None:
        claimed = "–" if known.claimed_at is None else _took(known.waited_s)
        since = known.rendered_s if known.claimed_at is not None else known.waited_s
        last = delivery.attempts[-1].outcome or "unknown"
        steps.append(Step(t("claimed"), claimed, "ok"))
        steps.append(Step(t("sent"), _took(since), "ok"))
        steps.append(Step(t("answered"), _took(known.provider_s), tone(last)))
    steps.append(Step(t("final"), delivery.state, tone(delivery.state)))
    return steps


def _took(seconds: float | None) -> str:
    return "–" if seconds is None else f"+{duration(seconds)}"
