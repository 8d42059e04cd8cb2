"""The link by which whoever reads a message takes its alert on: a capability, so nobody else gets to see it.

A token is a delivery's id and a keyed hash over it, its alert and its channel: `dlv_….` and 26 characters.
It is the same on every try, opens one alert, and only for a week. What is kept of a message has it masked.
"""

import hmac
import re
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from channels.base import SERIOUS
from notifier.model import Delivery
from notifier.secretbox import SecretBox
from notifier.wording import AlertView, severity_of

LIFE = timedelta(days=7)
FIRING = "firing"
_TOKEN = re.compile(r"(dlv_[0-9a-z]{26})\.([a-z2-7]{26})")
_SHOWN = re.compile(r"(dlv_[0-9a-z]{26}\.)[a-z2-7]{1,26}")


def token_of(view: AlertView, channel_id: str, box: SecretBox) -> str | None:
    """For what is serious, still going on and nobody's yet; of anything else nobody has to be found."""
    is_serious = view.status == FIRING and severity_of(view.severity) in SERIOUS
    if view.alert_id is None or not is_serious or view.acked_by:
        return None
    return f"{view.delivery_id}.{_signature(box, view.delivery_id, view.alert_id, channel_id)}"


def delivery_of(session: Session, token: str, box: SecretBox, now: datetime) -> Delivery | None:
    """The delivery whose message had this link; None if it is none of ours, or too old."""
    found = _TOKEN.fullmatch(token)
    row = session.get(Delivery, found[1]) if found else None
    if found is None or row is None or row.alert_id is None:
        return None
    ours = _signature(box, row.id, row.alert_id, row.channel_id)
    return row if hmac.compare_digest(ours, found[2]) and now < row.created_at + LIFE else None


def masked(text: str) -> str:
    """Without what makes the links in it work, also where the text ends inside one."""
    return _SHOWN.sub(r"\1***", text) if "dlv_" in text else text


def _signature(box: SecretBox, delivery_id: str, alert_id: str, channel_id: str) -> str:
    return box.signature("ack", delivery_id, alert_id, channel_id)
