"""What every adapter must do, as tests that an adapter's author runs over it: `docs/adapters.md`.

class TestMine(HttpContract):
    subject = Subject(Mine(), address="url", success={"ok": True})

Needs pytest, and nothing of Faultcast's own tests.
"""

import pytest

pytest.register_assert_rewrite(
    "channels.contract.every", "channels.contract.http", "channels.contract.robots", "channels.contract.word"
)

from channels.contract.desk import Desk, make_message  # noqa: E402  after the line above, or it has no effect
from channels.contract.every import AdapterContract  # noqa: E402
from channels.contract.http import HttpContract  # noqa: E402
from channels.contract.robots import KeywordContract, RobotContract  # noqa: E402
from channels.contract.subject import CANARY, MailSubject, Subject  # noqa: E402
from channels.contract.word import WordContract  # noqa: E402

__all__ = [
    "CANARY",
    "AdapterContract",
    "Desk",
    "HttpContract",
    "KeywordContract",
    "MailSubject",
    "RobotContract",
    "Subject",
    "WordContract",
    "make_message",
]
