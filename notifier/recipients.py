"""Who of a message's recipients is told, who is left, and what that means for the whole of it. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from channels.base import Adapter, Answer, ChannelConfig, Outcome, Recipient

TOLD = frozenset({Outcome.DELIVERED, Outcome.ACCEPTED})
SETTLED = TOLD | {Outcome.REFUSED}  # of one recipient: not to be asked again
PASSED_OVER = frozenset({Outcome.REFUSED, Outcome.THROTTLED})  # the next one is called instead
TURNED_AWAY = frozenset({Outcome.REFUSED, Outcome.CHANNEL_BROKEN})
NOT_SENT = "not_sent"  # as adapters say it: nothing of it has left
QUOTA = "quota"
LONGEST_WAIT = timedelta(minutes=10)  # for one number, where there is a fallback
NO_WORD, UNDER_WAY = "no_word", "under_way"
SILENT = "silent"  # of a lost call: asked about, and nothing was said

_Ranks: TypeAlias = tuple[str, ...]

# What decides for all of them. A mail whose answer was lost is sent again, so it is waited for; a text is
# not, so whoever was refused for certain counts first.
_FIRST: _Ranks = (Outcome.THROTTLED, Outcome.TEMPORARY, QUOTA)
_EVERYBODY: _Ranks = (*_FIRST, Outcome.AMBIGUOUS, Outcome.CHANNEL_BROKEN, Outcome.REFUSED, Outcome.ACCEPTED)
_EVERYBODY_ONCE: _Ranks = (
    *_FIRST,
    Outcome.CHANNEL_BROKEN,
    Outcome.REFUSED,
    Outcome.AMBIGUOUS,
    Outcome.ACCEPTED,
)
_ANYBODY: _Ranks = (Outcome.DELIVERED, Outcome.ACCEPTED, *_FIRST, Outcome.AMBIGUOUS, Outcome.CHANNEL_BROKEN)
_ANYBODY_ONCE: _Ranks = (
    Outcome.DELIVERED,
    Outcome.ACCEPTED,
    Outcome.AMBIGUOUS,
    *_FIRST,
    Outcome.CHANNEL_BROKEN,
)
_ANYBODY_ELSE: _Ranks = (
    Outcome.DELIVERED,
    Outcome.ACCEPTED,
    *_FIRST,
    Outcome.CHANNEL_BROKEN,
    Outcome.AMBIGUOUS,
)


@dataclass(frozen=True)
class Audience:
    """Whom a channel tells, and how.

    Attributes:
        order: all by name, in the order of telling; empty for robots, and where only the adapter knows them.
        is_sequential: they are tried one after another until one is told.
        resends: whoever may have been told is told again; else only where the provider never had it.
        asks: the provider can be asked what became of a send.
    """

    order: tuple[str, ...] = ()
    is_sequential: bool = False
    resends: bool = True
    asks: bool = True

    @classmethod
    def of(cls, adapter: Adapter, config: ChannelConfig) -> "Audience":
        names = tuple(to for to in config.meters() if to)
        asks = bool(adapter.receipt_times(config))
        return cls(names, adapter.is_sequential, adapter.resend_when_unknown, asks)

    def tested(self) -> "Audience":
        """Whom a test is for: of people who are called one after another only the first."""
        return replace(self, order=self.order[:1]) if self.is_sequential else self

    def left(self, recipients: Sequence[Recipient]) -> frozenset[str] | None:
        """Whom the next send is for; None: nothing is known yet, so all."""
        if not recipients:
            return None
        done = SETTLED if self.resends else SETTLED | {Outcome.AMBIGUOUS}
        known = {one.to: one.outcome for one in recipients}
        if self.is_sequential and any(one.outcome in TOLD or self.waits_for(one) for one in recipients):
            return frozenset()
        return frozenset(to for to in (*self.order, *known) if known.get(to) not in done)

    def waits_for(self, one: Recipient) -> bool:
        """Whether the next one is called only once it is known what became of a call whose answer was lost.
        Where nobody can say that he is called at once: that is no repeat to the first."""
        is_open = one.outcome is Outcome.AMBIGUOUS and one.code != SILENT
        return is_open and not self.resends and self.asks

    def past(self, recipients: Sequence[Recipient]) -> tuple[Recipient, ...]:
        """The same where the provider was asked and said nothing: if others are left to be called, nobody
        waits for a word on the lost call any longer."""
        silent = tuple(
            replace(one, code=SILENT) if self.is_sequential and self.waits_for(one) else one
            for one in recipients
        )
        return silent if self.left(silent) else tuple(recipients)

    def outcome(self, answer: Answer, recipients: Sequence[Recipient]) -> Outcome:
        """Of the whole message: told when every one is, or by phone as soon as anybody is."""
        found = {QUOTA if waits_for_quota(one) else one.outcome for one in recipients}
        if not found or answer.outcome is Outcome.CHANNEL_BROKEN:
            return answer.outcome
        if set(self.order) - {one.to for one in recipients}:
            found.add(Outcome.TEMPORARY)  # who was not addressed yet
        if self.is_sequential:
            waits = any(map(self.waits_for, recipients))
            ranks = _ANYBODY if self.resends else _ANYBODY_ONCE if waits else _ANYBODY_ELSE
            last = Outcome.REFUSED
        else:
            ranks, last = (_EVERYBODY if self.resends else _EVERYBODY_ONCE), Outcome.DELIVERED
        first = next((rank for rank in ranks if rank in found), last)
        return Outcome.THROTTLED if first == QUOTA else Outcome(first)

    def present(self, recipients: Sequence[Recipient]) -> tuple[Recipient, ...]:
        """Without those who were not told and have been taken off the channel since."""
        if not self.order:
            return tuple(recipients)
        return tuple(one for one in recipients if one.to in self.order or one.outcome in SETTLED)

    def heard(self, answer: Answer, addressed: Collection[str]) -> tuple[Recipient, ...]:
        """What an answer says of each who was addressed. Who is not mentioned shares the outcome of the
        whole, but no good news: of that, every one must be told by name."""
        names = [to for to in addressed if to]
        if not names:
            return answer.recipients
        said = {one.to: one for one in answer.recipients}
        is_praise = bool(said) and answer.outcome in TOLD
        other = Outcome.AMBIGUOUS if is_praise else answer.outcome
        code = NO_WORD if is_praise else answer.code
        message_id = answer.message_id if len(names) == 1 else None
        found = [said.get(to) or Recipient(to, other, code) for to in names]
        return tuple(replace(one, message_id=one.message_id or message_id) for one in found)


def waits_for_quota(one: Recipient) -> bool:
    """Whether it was we who did not send: he may get nothing before a moment that is near."""
    return one.outcome is Outcome.THROTTLED and one.code == QUOTA


def turned_away(answer: Answer, heard: Sequence[Recipient]) -> frozenset[str]:
    """Who got nothing, because the provider would not have the message, or was not reached: no quota of his
    is used up by that."""
    is_word = answer.outcome is not Outcome.THROTTLED
    return frozenset(
        one.to
        for one in heard
        if one.to and (one.code == NOT_SENT or (is_word and one.outcome in TURNED_AWAY))
    )


def merge(known: Sequence[Recipient], heard: Sequence[Recipient]) -> tuple[Recipient, ...]:
    """Every address with the last that was heard of it."""
    latest = {recipient.to: recipient for recipient in known}
    latest.update({recipient.to: recipient for recipient in heard})
    return tuple(latest.values())


def over_quota(
    free: Mapping[str, datetime], now: datetime, *, gives_up: bool = False
) -> tuple[Recipient, ...]:
    """Recipients who may get nothing before these moments: waited for, unless that is long and we give up
    then."""
    late = {to for to, moment in free.items() if gives_up and moment - now > LONGEST_WAIT}
    return tuple(Recipient(to, Outcome.REFUSED if to in late else Outcome.THROTTLED, QUOTA) for to in free)


def quota_words(free: Mapping[str, datetime]) -> str:
    """Why these got nothing."""
    said = (f"{to} until {moment:%Y-%m-%d %H:%M:%S} UTC" for to, moment in free.items())
    return f"the provider's quota is used up: {', '.join(said)}" if free else ""


def awaited(recipients: Sequence[Recipient]) -> list[Recipient]:
    """Those of whom the provider may still say more."""
    return [one for one in recipients if one.outcome in (Outcome.ACCEPTED, Outcome.AMBIGUOUS)]


def document(one: Recipient) -> dict[str, Any]:
    """As rows keep it."""
    return {"to": one.to, "outcome": one.outcome.value, "code": one.code, "message_id": one.message_id}


def parsed(rows: Sequence[Mapping[str, Any]]) -> tuple[Recipient, ...]:
    return tuple(
        Recipient(one["to"], Outcome(one["outcome"]), one["code"], one.get("message_id")) for one in rows
    )
