"""What the tests of texts and calls share: accounts at the played providers, channels to them, and sends."""

from datetime import UTC, datetime, timedelta
from typing import Any

from channels.base import Answer, Message, Recipient, Sent, Severity
from channels.registry import ADAPTERS
from channels.standin import Account, StandIn
from channels.transport import Network

ALICE, BOB, CAROL = "+8613800001111", "+8613900002222", "+85291234567"
PARAMS = {"job": "llm", "cause": "GPU 掉卡"}
TEXT = "任务${job}故障：${cause}，请处理。"


class Line:
    """A channel to a played provider, and what its adapter makes of it."""

    def __init__(
        self, providers: StandIn, network: Network, kind: str, account: Account, **config: Any
    ) -> None:
        self.providers, self.network, self.account, self.kind = providers, network, account, kind
        self.adapter = ADAPTERS[kind]
        self.given = {"provider": account.provider, "endpoint": account.endpoint, **config}
        self.now = datetime.now(UTC)

    def config(self, **changes: Any) -> Any:
        return self.adapter.Config.model_validate({**self.given, **changes})

    def send(self, params: dict[str, str] | None = None, *, only: Any = None, **changes: Any) -> Answer:
        config = self.config(**changes)
        message = Message(
            "dlv_01",
            "llm failed",
            "text",
            "text",
            Severity.ERROR,
            params=PARAMS if params is None else params,
        )
        (part,) = self.adapter.parts(message, config)
        return self.adapter.send(part, config, self.network, self.now, only)

    def asked(self, *sent: Sent, later: timedelta = timedelta(0), **changes: Any) -> tuple[Recipient, ...]:
        return self.adapter.receipts(sent, self.config(**changes), self.network, self.now + later)

    def sent(self, to: str, message_id: str | None, at: datetime | None = None) -> Sent:
        return Sent("dlv_01", to, at or self.now, message_id)


def of_each(answer: Answer) -> dict[str, tuple[str, str | None]]:
    return {one.to: (one.outcome.value, one.code) for one in answer.recipients}
