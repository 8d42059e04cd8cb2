"""Channels that were made before there were meters, or by other names, get theirs when a worker starts."""

from contextlib import suppress

from pydantic import ValidationError
from sqlalchemy import select
from sqlalchemy.orm import Session

from notifier import meters
from notifier.channels import load_config
from notifier.model import Channel
from notifier.secretbox import SecretBox, WrongKeyError


def fill_meters(session: Session, box: SecretBox) -> None:
    rows = session.scalars(select(Channel)).all()
    known = meters.of(session, [row.id for row in rows])
    for row in rows:
        with suppress(WrongKeyError, ValidationError):
            config = load_config(row, box)
            if set(meters.names(config, row.id).values()) != set(known[row.id]):
                meters.register(session, row.id, config)
