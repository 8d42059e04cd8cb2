"""A played provider of texts and calls, and plain adapters for it: what the engine owes any such adapter.

The real providers' adapters have stand-ins and tests of their own; this one answers as a test says.
"""

import json
import threading
import time
from collections import defaultdict, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Self

from channels import fields
from channels.base import (
    Adapter,
    Answer,
    ChannelConfig,
    Limit,
    Message,
    Outcome,
    Part,
    Recipient,
    Sent,
)
from channels.transport import Network, NotSent, Unanswered

LOOKS = (timedelta(seconds=0.2),) * 4
CLASSES = {
    "played_sms": "tests.delivery.exchange:PlayedSms",
    "played_phone": "tests.delivery.exchange:PlayedPhone",
}
CODES = {
    "OK": Outcome.ACCEPTED,
    "BUSINESS_LIMIT": Outcome.THROTTLED,
    "DAY_LIMIT": Outcome.THROTTLED,
    "ILLEGAL": Outcome.REFUSED,
    "SYSTEM_ERROR": Outcome.TEMPORARY,
    "WRONG_KEY": Outcome.CHANNEL_BROKEN,
}
FATES = {"delivered": Outcome.DELIVERED, "taken": Outcome.ACCEPTED, "never": Outcome.TEMPORARY}


class PlayedConfig(ChannelConfig):
    """`quota`: sends to one number in so many seconds, `1/60`."""

    url: fields.Url
    to: tuple[str, ...]
    quota: str = ""
    params: dict[str, str] = {}  # noqa: RUF012
    asks: bool = True

    def targets(self) -> tuple[str, ...]:
        return (self.url.get_secret_value(),)

    def meters(self) -> Mapping[str, str]:
        return {to: f"played:{self.quota}:{to}" for to in self.to}

    def templates(self) -> Mapping[str, str]:
        return self.params


class PlayedSms(Adapter):
    kind: ClassVar[str] = "played_sms"
    Config: ClassVar[type[ChannelConfig]] = PlayedConfig
    format: ClassVar[str] = "sms"
    resend_when_unknown: ClassVar[bool] = False

    def parts(self, message: Message, config: PlayedConfig) -> list[Part]:  # noqa: ARG002
        return [Part(1, 1, {"text": message.text, "params": dict(message.params)}, message)]

    def limits_of(self, meter: str, now: datetime) -> tuple[Limit, ...]:  # noqa: ARG002
        quota = meter.split(":")[1]
        count, _, seconds = quota.partition("/")
        return (Limit(int(count), timedelta(seconds=float(seconds))),) if quota else ()

    def receipt_times(self, config: PlayedConfig) -> tuple[timedelta, ...]:
        return LOOKS if config.asks else ()

    def send(
        self, part: Part, config: PlayedConfig, network: Network, now: datetime,  # noqa: ARG002
        only: frozenset[str] | None = None,
    ) -> Answer:  # fmt: skip
        to = [one for one in config.to if only is None or one in only]
        try:
            asked = {"to": to, "reference": part.message.id, **part.payload}
            response = network.request("POST", f"{config.url.get_secret_value()}/send", json=asked)
        except NotSent as lost:
            return Answer(Outcome.TEMPORARY, code="not_sent", message=lost.reason)
        except Unanswered as lost:
            return Answer(Outcome.AMBIGUOUS, code="unanswered", message=lost.reason)
        found = [
            Recipient(one["to"], CODES[one["code"]], one["code"], one.get("id"))
            for one in response.json_object()["results"]
        ]
        last = found[-1]
        wait = timedelta(hours=2) if last.code == "DAY_LIMIT" else None
        return Answer(
            last.outcome, response.status, last.code, "said so", retry_after=wait, recipients=tuple(found)
        )

    def receipts(
        self, sent: Sequence[Sent], config: PlayedConfig, network: Network, now: datetime  # noqa: ARG002
    ) -> tuple[Recipient, ...]:  # fmt: skip
        asked = [{"to": one.to, "reference": one.delivery_id, "id": one.message_id} for one in sent]
        try:
            response = network.request(
                "POST", f"{config.url.get_secret_value()}/fates", json={"asked": asked}
            )
        except (NotSent, Unanswered):
            return ()
        return tuple(
            Recipient(one["to"], FATES.get(one["fate"], Outcome.REFUSED), one["fate"], one["id"])
            for one in response.json_object().get("results", ())
        )


class PlayedPhone(PlayedSms):
    kind: ClassVar[str] = "played_phone"
    format: ClassVar[str] = "speech"
    is_sequential: ClassVar[bool] = True
    expires_after: ClassVar[timedelta] = timedelta(minutes=30)

    def addressed(self, config: Any, left: Collection[str] | None) -> tuple[str, ...]:
        return super().addressed(config, left)[:1]

    def send(
        self, part: Part, config: PlayedConfig, network: Network, now: datetime,
        only: frozenset[str] | None = None,
    ) -> Answer:  # fmt: skip
        return super().send(part, config, network, now, frozenset(self.addressed(config, only)))


@dataclass(frozen=True)
class Taken:
    """One message to one number that the provider has."""

    to: str
    id: str
    reference: str
    text: str
    params: Mapping[str, str]


@dataclass
class Exchange:
    """What the provider does.

    Attributes:
        codes: what each number's next sends are answered; `OK` when there is nothing.
        fates: what a receipt says of each number's message; what is taken and not listed has none yet.
        lost: of the next sends, whether the provider has the message whose answer is lost.
        is_mute: nothing is said to questions.
        delay_s: before a send is answered.
    """

    codes: dict[str, deque[str]] = field(default_factory=lambda: defaultdict(deque))
    fates: dict[str, str] = field(default_factory=dict)
    lost: deque[bool] = field(default_factory=deque)
    is_mute: bool = False
    delay_s: float = 0.0
    taken: list[Taken] = field(default_factory=list)
    asked: list[Mapping[str, Any]] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def __enter__(self) -> Self:
        exchange = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                size = int(self.headers["Content-Length"])
                asked = json.loads(self.rfile.read(size))
                reply = exchange.send(asked) if self.path == "/send" else exchange.tell(asked)
                if self.path == "/send" and exchange.delay_s:
                    time.sleep(exchange.delay_s)
                if reply is None:
                    self.close_connection = True
                    return
                body = json.dumps({"results": reply}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def send(self, asked: Mapping[str, Any]) -> list[dict[str, str]] | None:
        """The answer, or None: it is lost."""
        with self.lock:
            is_lost = bool(self.lost)
            if is_lost and not self.lost.popleft():
                return None
            results = [self._take(to, asked) for to in asked["to"]]
            return None if is_lost else results

    def _take(self, to: str, asked: Mapping[str, Any]) -> dict[str, str]:
        code = self.codes[to].popleft() if self.codes[to] else "OK"
        if code != "OK":
            return {"to": to, "code": code}
        one = Taken(to, f"biz-{len(self.taken) + 1}", asked["reference"], asked["text"], asked["params"])
        self.taken.append(one)
        return {"to": to, "code": code, "id": one.id}

    def tell(self, asked: Mapping[str, Any]) -> list[dict[str, str]] | None:
        with self.lock:
            self.asked += asked["asked"]
            return None if self.is_mute else [self._fate(one) for one in asked["asked"]]

    def _fate(self, asked: Mapping[str, Any]) -> dict[str, str]:
        for one in self.taken:
            if (
                one.to == asked["to"]
                and one.reference == asked["reference"]
                and asked["id"] in (None, one.id)
            ):
                return {"to": one.to, "fate": self.fates.get(one.to, "taken"), "id": one.id}
        return {"to": asked["to"], "fate": "never", "id": ""}

    def called(self) -> list[str]:
        """Whom messages went to, in order."""
        with self.lock:
            return [one.to for one in self.taken]
