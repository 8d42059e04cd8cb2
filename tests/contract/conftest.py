"""What every adapter must do. A new channel kind is one more row in SUBJECTS; the cases are in `test_*`."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from ipaddress import ip_network
from typing import Any

import pytest

from channels.base import Adapter, Answer, ChannelConfig, Message, Part, Severity
from channels.registry import ADAPTERS
from channels.standin import Received, Scripted, StandIn
from channels.transport import Network

LOOPBACK = (ip_network("127.0.0.0/8"),)
WHSEC = "whsec_" + "a2tr" * 8
MENTIONS = {
    "dingtalk": {"at_mobiles": ["13800001111"], "at_user_ids": ["manager1"], "at_all": True},
    "wecom": {"mentioned_user_ids": ["zhangsan", "@all"], "mentioned_mobiles": ["13800001111"]},
    "feishu": {"at_open_ids": ["ou_abc"], "at_all": True},
}


@dataclass(frozen=True)
class Subject:
    """One kind as the contract sees it.

    Attributes:
        address: the config field that says where to.
        success: the answer of a provider that took the message.
        secret: a signing secret, where the kind knows one.
        limit: bytes of `size(payload)` that a part may not exceed.
        size: what the provider counts.
    """

    kind: str
    address: str
    success: str = ""
    secret: str | None = None
    takes_keyword: bool = False
    limit: int | None = None
    size: Callable[[Mapping[str, Any]], int] = len
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def adapter(self) -> Adapter:
        return ADAPTERS[self.kind]

    @property
    def is_http(self) -> bool:
        return self.kind != "email"

    def config(self, url: str, **more: Any) -> ChannelConfig:
        signed = {"secret": self.secret} if self.secret else {}
        return self.adapter.Config.model_validate({self.address: url, **signed, **self.extra, **more})


def _json_bytes(payload: Mapping[str, Any]) -> int:
    return len(json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode())


def _wecom_bytes(payload: Mapping[str, Any]) -> int:
    return len(payload[payload["msgtype"]]["content"].encode())


SUBJECTS = (
    Subject(
        "dingtalk", "webhook_url", '{"errcode":0,"errmsg":"ok"}', secret="SECtest-secret",
        takes_keyword=True, limit=20_000, size=_json_bytes,
    ),
    Subject("wecom", "webhook_url", '{"errcode":0,"errmsg":"ok"}', limit=4096, size=_wecom_bytes),
    Subject(
        "feishu", "webhook_url", '{"code":0,"msg":"success"}', secret="feishu-secret",
        takes_keyword=True, limit=20_000, size=_json_bytes,
    ),
    Subject("webhook", "url", "", secret=WHSEC),
    Subject("email", "smtp_url", extra={"to": ["oncall@example.com"]}),
)  # fmt: skip
HTTP = tuple(subject for subject in SUBJECTS if subject.is_http)
ROBOTS = tuple(subject for subject in HTTP if subject.limit)
KEYWORD_ROBOTS = tuple(subject for subject in ROBOTS if subject.takes_keyword)


def _params(subjects: tuple[Subject, ...]) -> list[Any]:
    return [pytest.param(subject, id=subject.kind) for subject in subjects]


@pytest.fixture(params=_params(SUBJECTS))
def subject(request: pytest.FixtureRequest) -> Subject:
    return request.param


@pytest.fixture(params=_params(HTTP))
def http_subject(request: pytest.FixtureRequest) -> Subject:
    return request.param


@pytest.fixture(params=_params(ROBOTS))
def robot_subject(request: pytest.FixtureRequest) -> Subject:
    return request.param


@pytest.fixture(params=_params(KEYWORD_ROBOTS))
def keyword_subject(request: pytest.FixtureRequest) -> Subject:
    return request.param


@pytest.fixture
def subjects() -> Mapping[str, Subject]:
    return {subject.kind: subject for subject in SUBJECTS}


@pytest.fixture(scope="session")
def running() -> Iterator[StandIn]:
    with StandIn() as standin:
        yield standin


@pytest.fixture
def providers(running: StandIn) -> StandIn:
    running.clear()
    return running


class Desk:
    """Sends one subject's messages to the stand-ins and tells what came of it."""

    def __init__(self, providers: StandIn) -> None:
        self.providers = providers
        self.network = Network(allow=LOOPBACK, timeout_s=1.0, smtp_timeout_s=2.0)
        self.now = datetime.now(UTC)

    def channel(self, subject: Subject, *, keyword: str | None = None, **more: Any) -> ChannelConfig:
        """A channel to a robot of its own, with the robot's secret and keyword known on both sides."""
        if not subject.is_http:
            return subject.config(self.providers.smtp_url, **more)
        robot = self.providers.robot(subject.kind, secret=subject.secret, keyword=keyword)
        known = {"keyword": keyword} if keyword else {}
        return subject.config(robot.url, **known, **more)

    def send(self, subject: Subject, message: Message, config: ChannelConfig) -> list[Answer]:
        return [self.send_part(subject, part, config) for part in subject.adapter.parts(message, config)]

    def send_part(self, subject: Subject, part: Part, config: ChannelConfig) -> Answer:
        return subject.adapter.send(part, config, self.network, self.now)

    def answered(self, subject: Subject, *scripted: Scripted) -> Answer:
        """What the adapter makes of a made-up answer."""
        config = self.channel(subject)
        self.providers.script(subject.kind, *scripted)
        part = subject.adapter.parts(message(), config)[0]
        return self.send_part(subject, part, config)

    def arrived(self, subject: Subject) -> list[Received]:
        return self.providers.messages(subject.kind, accepted=True)


@pytest.fixture
def desk(providers: StandIn) -> Desk:
    return Desk(providers)


def message(**changes: Any) -> Message:
    """An alert as rendering hands it over."""
    text = changes.pop("text", "culprit: rank 3 on node-b\ndecision: restart")
    given = {
        "id": "dlv_01", "title": "llm-训练 failed", "text": text, "plain": text,
        "severity": Severity.ERROR, "html": f"<p>{text}</p>", "link": "https://faultcast.example.com/a/1",
        "thread": "alert_01", "document": {"item": "jobFailed", "labels": {"team": "nlp"}},
    }  # fmt: skip
    return Message(**{**given, **changes})


@pytest.fixture(name="message")
def message_fixture() -> Callable[..., Message]:
    return message


@pytest.fixture(name="mentioned")
def mentioned_fixture() -> Mapping[str, Mapping[str, Any]]:
    return MENTIONS
