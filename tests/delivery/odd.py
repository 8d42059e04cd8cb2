"""Webhooks whose adapter has a fault of its own, before or after the request."""

from typing import ClassVar

from channels.answers import Call, Reading
from channels.webhook import Webhook

CLASSES = {"unwritable": "tests.delivery.odd:Unwritable", "unreadable": "tests.delivery.odd:Unreadable"}


class Unwritable(Webhook):
    kind: ClassVar[str] = "unwritable"

    def call(self, *_: object) -> Call:
        raise KeyError("secret")


class Unreadable(Webhook):
    kind: ClassVar[str] = "unreadable"

    def read(self, *_: object) -> Reading:
        raise KeyError("secret")
