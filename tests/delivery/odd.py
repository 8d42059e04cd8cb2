"""Webhooks whose adapter has a fault of its own, before or after the request."""

from datetime import timedelta
from typing import ClassVar

from channels.answers import Call, Reading
from channels.webhook import Webhook

CLASSES = {
    "unwritable": "tests.delivery.odd:Unwritable",
    "unreadable": "tests.delivery.odd:Unreadable",
    "uncertain": "tests.delivery.odd:Uncertain",
}


class Unwritable(Webhook):
    kind: ClassVar[str] = "unwritable"

    def call(self, *_: object) -> Call:
        raise KeyError("secret")


class Unreadable(Webhook):
    kind: ClassVar[str] = "unreadable"

    def read(self, *_: object) -> Reading:
        raise KeyError("secret")


class Uncertain(Webhook):
    kind: ClassVar[str] = "uncertain"

    def receipt_times(self, *_: object) -> tuple[timedelta, ...]:
        raise KeyError("secret")
