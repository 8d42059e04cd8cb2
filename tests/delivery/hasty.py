"""DingTalk's robot with a window that a test can wait for."""

from datetime import timedelta
from typing import ClassVar

from channels.base import Limit
from channels.dingtalk import DingTalk

CLASSES = {"hasty": "tests.delivery.hasty:Hasty"}
COUNT, SECONDS = 20, 1.0


class Hasty(DingTalk):
    kind: ClassVar[str] = "hasty"
    limits: ClassVar[tuple[Limit, ...]] = (Limit(COUNT, timedelta(seconds=SECONDS)),)
