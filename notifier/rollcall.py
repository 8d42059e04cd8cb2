"""Who of a delivery's recipients has been told by now: kept by whoever sends it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from channels.base import Answer, ChannelConfig, Outcome, Recipient
from notifier import meters
from notifier.messages import Made
from notifier.recipients import LONGEST_WAIT, PASSED_OVER, TOLD, Audience, merge, over_quota, turned_away

NO_WAIT = timedelta(0)


@dataclass
class Rollcall:
    """One delivery's recipients while it is being sent.

    Attributes:
        audience: None until the channel's config was read.
        known: what is known of each.
        addressed: whom the send under way goes to.
        sent_at: whom this try went to, and when.
        free: who is over the provider's quota, and until when.
        passed: who is not called again in this try.
        gives_up: there is a fallback.
        counted: recipient → by what the send under way counts.
        uncounted: of those, what the last send does not count by after all.
    """

    known: tuple[Recipient, ...] = ()
    audience: Audience = field(default_factory=Audience)
    addressed: tuple[str, ...] = ()
    sent_at: dict[str, datetime] = field(default_factory=dict)
    free: dict[str, datetime] = field(default_factory=dict)
    passed: set[str] = field(default_factory=set)
    gives_up: bool = False
    counted: Mapping[str, str] = field(default_factory=dict)
    uncounted: frozenset[str] = frozenset()

    def meet(self, audience: Audience) -> None:
        self.audience, self.known = audience, audience.present(self.known)

    def left(self) -> frozenset[str] | None:
        """Who is still to be told in this try; None: all."""
        left = self.audience.left(self.known)
        if not self.passed:
            return left
        return (frozenset(self.audience.order) if left is None else left) - self.passed

    def call(self, made: Made) -> tuple[str, ...]:
        """Whom the next send goes to; of a robot: ("",)."""
        self.addressed = made.adapter.addressed(made.config, self.left())
        return self.addressed

    def meters(self, config: ChannelConfig, channel_id: str) -> dict[str, str]:
        """By what a send to those addressed counts."""
        names = meters.names(config, channel_id)
        self.counted = {to: names[to] for to in self.addressed if to in names}
        return dict(self.counted)

    def only(self) -> frozenset[str] | None:
        """As adapters want it."""
        names = frozenset(to for to in self.addressed if to)
        return names if self.audience.order else self.left()

    def block(self, free: Mapping[str, datetime], now: datetime) -> None:
        """These may get nothing now."""
        self.free.update(free)
        self.passed.update(free)
        self.addressed = tuple(to for to in self.addressed if to not in free)
        gives_up = self._gives_up(self.known) or (bool(self.addressed) and not self.audience.is_sequential)
        self.known = merge(self.known, over_quota(free, now, gives_up=gives_up))

    def hear(self, answer: Answer, now: datetime) -> Answer:
        """Takes note of an answer; gives it back with a word on each who was addressed."""
        heard = self.audience.heard(answer, self.addressed)
        away = turned_away(answer, heard)
        others = {meter for to, meter in self.counted.items() if to not in away and to in self.addressed}
        self.uncounted = frozenset(self.counted[to] for to in away if to in self.counted) - others
        is_late = bool(self.audience.order) and (answer.retry_after or NO_WAIT) > LONGEST_WAIT
        if is_late and self._gives_up((*self.known, *heard)):
            heard = tuple(
                replace(one, outcome=Outcome.REFUSED) if one.outcome is Outcome.THROTTLED else one
                for one in heard
            )
        self.known = merge(self.known, heard)
        self.sent_at.update(dict.fromkeys((one.to for one in heard), now))
        # A throttle that names nobody is the account's, and would meet the next one too.
        over = PASSED_OVER if answer.recipients else frozenset({Outcome.REFUSED})
        over |= frozenset() if self.audience.resends or self.audience.asks else {Outcome.AMBIGUOUS}
        self.passed.update(one.to for one in heard if self.audience.is_sequential and one.outcome in over)
        return replace(answer, recipients=heard)

    def _gives_up(self, recipients: Iterable[Recipient]) -> bool:
        """Whether nobody waits long for a number: there is a fallback; or others are told, and their next
        message would have to wait as well."""
        is_partial = any(one.outcome in TOLD for one in recipients) and not self.audience.is_sequential
        return self.gives_up or is_partial

    def is_next(self) -> bool:
        """Whether somebody is called now because others could not be told."""
        known = {one.to for one in self.known}
        return self.audience.is_sequential and bool(known) and known.isdisjoint(self.addressed)

    def has_next(self, made: Made) -> bool:
        """Whether somebody else is to be called at once, because the last one could not be told."""
        if not self.audience.is_sequential or not self.passed.issuperset(self.addressed):
            return False
        return bool(made.adapter.addressed(made.config, self.left()))

    def outcome(self, answer: Answer) -> Outcome:
        """Of the whole message, with all that was told before."""
        return self.audience.outcome(answer, self.known)

    def ask_again(self) -> None:
        """The message was mended: who was not told is asked again, refused or not."""
        final = TOLD if self.audience.resends else TOLD | {Outcome.AMBIGUOUS}
        self.known = tuple(
            one if one.outcome in final else replace(one, outcome=Outcome.TEMPORARY) for one in self.known
        )
        self.passed.clear()

    def forget(self) -> bool:
        """Another text is told from the start; whether somebody may have been told the old one."""
        was_in_doubt = any(one.outcome is Outcome.AMBIGUOUS for one in self.known)
        self.known = ()
        return was_in_doubt
