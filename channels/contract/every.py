"""What every adapter must do, whatever its provider speaks."""

import base64
import json
import socket
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeAlias
from urllib.parse import quote

import pytest

from channels.base import Answer, Outcome, Sent, Severity
from channels.config import join, masked, merge, split
from channels.contract.desk import Desk, make_message
from channels.contract.subject import CANARY, Subject
from channels.plugins import faults
from channels.standin import Scripted
from channels.transport import Network

Told: TypeAlias = Callable[[list[Answer]], bool]
MAX_PARTS = 3
LOCAL = ("127.0.0.1", "localhost", "2130706433", "0x7f.1", "0177.0.0.1", "[::ffff:127.0.0.1]", "[::1]", "0")
HOSTILE = (
    "<@all>", "<@zhangsan>", "@all", "@13800001111", "<at id=all></at>", '<at user_id="all">x</at>',
    "[click](http://evil.example)", "![](http://evil.example/x.png)", "`code` **bold** _it_ ~~gone~~",
    "<font color='red'>x</font><script>alert(1)</script>", "# heading\n> quote\n- list\n1. one",
    '{"errcode":0} "quoted" \\back\\slash \\D: C:\\temp\\new', "\x1b[31mred\x1b[0m\x00\x07\x9b",
    "\u202egnp.exe \u2066x\u2069", "&#60;at id=all&#62; &lt;at&gt;", "emoji 👩‍👩‍👧 🇨🇳 \ud800 lone",
    "%s %(x)s {0}",
)  # fmt: skip


class AdapterContract:
    """The least that is asked of an adapter. Give `subject`, or override the fixture `given`."""

    subject: ClassVar[Subject]

    @pytest.fixture
    def given(self) -> Subject:
        """The subject; override it with a parametrized fixture to test several."""
        return self.subject

    @pytest.fixture
    def desk(self, given: Subject) -> Desk:
        return Desk(given)

    @pytest.fixture
    def told(self, given: Subject) -> Told:
        """Whether every part was taken, in the provider's own word."""
        return lambda answers: bool(answers) and {answer.outcome for answer in answers} == {given.told}

    def test_is_fit_to_be_registered(self, given: Subject) -> None:
        assert list(faults(given.adapter, given.adapter.kind)) == []

    def test_its_config_survives_the_database(self, given: Subject, desk: Desk) -> None:
        config = desk.channel()
        plain, secret = (json.loads(json.dumps(half)) for half in split(config))
        assert join(given.adapter.Config, plain, secret) == config

    def test_its_config_is_shown_without_secrets_and_taken_back_as_shown(
        self, given: Subject, desk: Desk
    ) -> None:
        config = given.telltale(desk.providers.url, desk.providers)
        shown = json.loads(json.dumps(masked(config)))
        assert not leaks(shown)
        assert not leaks((repr(config), str(config), config.lint(), dict(config.meters())))
        assert merge(given.adapter.Config, shown, config) == config

    def test_an_unknown_field_is_refused_without_its_value(self, desk: Desk) -> None:
        with pytest.raises(ValueError, match="no_such_field") as refusal:
            desk.channel(no_such_field=CANARY)
        assert not leaks(str(refusal.value))

    def test_delivers_and_the_provider_shows_it(self, desk: Desk, told: Told) -> None:
        assert told(desk.send(make_message(), desk.channel()))
        (shown,) = desk.arrived()
        assert "rank 3 on node-b" in shown.text + str(shown.body)

    def test_tells_what_was_sent_and_answered(self, desk: Desk) -> None:
        (answer,) = desk.send(make_message(), desk.channel())
        assert "rank 3 on node-b" in answer.request
        assert answer.response

    def test_makes_the_same_parts_of_the_same_message(self, desk: Desk) -> None:
        config = desk.channel()
        parts = [desk.parts(make_message(text="行\n" * 9000), config) for _ in range(2)]
        assert parts[0] == parts[1]

    @pytest.mark.parametrize("text", ["", "行" * 300_000, "行\n" * 100_000], ids=["none", "a line", "lines"])
    def test_makes_at_most_three_numbered_parts(self, desk: Desk, text: str) -> None:
        parts = desk.parts(make_message(text=text), desk.channel())
        assert 1 <= len(parts) <= MAX_PARTS
        assert [(part.n, part.of) for part in parts] == [(n, len(parts)) for n in range(1, len(parts) + 1)]
        assert all(json.dumps(dict(part.payload)) for part in parts)

    def test_a_very_long_text_goes_through(self, desk: Desk, told: Told) -> None:
        assert told(desk.send(make_message(text="日志日志日志日志日志\n" * 20_000), desk.channel()))

    def test_as_plain_text_it_goes_through_as_well(self, desk: Desk, told: Told) -> None:
        text = "culprit: rank 3\n" + "行" * 9000
        assert told(desk.send(make_message(text=text, is_plain=True), desk.channel()))

    @pytest.mark.parametrize("severity", list(Severity))
    @pytest.mark.parametrize("status", ["firing", "resolved"])
    def test_every_severity_and_its_end_go_through(
        self, desk: Desk, severity: Severity, status: str, told: Told
    ) -> None:
        bare: dict[str, Any] = {"html": None, "link": None, "thread": None, "document": {}}
        assert told(desk.send(make_message(severity=severity, status=status, **bare), desk.channel()))

    @pytest.mark.parametrize("plain", [False, True], ids=["marked-up", "plain"])
    @pytest.mark.parametrize("data", HOSTILE, ids=range(len(HOSTILE)))
    def test_hostile_data_arrives_and_calls_nobody(
        self, given: Subject, desk: Desk, data: str, plain: bool, told: Told
    ) -> None:
        shown = make_message(
            title=f"job {data}", text=given.adapter.escape(data) or "-", plain=data, is_plain=plain,
            severity=Severity.WARNING, html=None, document={"labels": {"path": data}},
        )  # fmt: skip
        assert told(desk.send(shown, desk.channel(**given.mentioned)))
        (arrived,) = desk.arrived()
        assert not self.called_by_data(arrived.called)

    def called_by_data(self, called: tuple[str, ...]) -> tuple[str, ...]:
        """Whom a message called that should call nobody; a mail's recipients, say, are no such people."""
        return called

    def test_a_title_cannot_add_headers_or_lines(self, desk: Desk, told: Told) -> None:
        title = "loss NaN\r\nBcc: evil@example.com\n\nX-Injected: 1"
        assert told(desk.send(make_message(title=title), desk.channel()))
        (arrived,) = desk.arrived()
        assert "\n" not in arrived.title
        assert not {"bcc", "x-injected"} & set(arrived.headers)
        assert "evil@example.com" not in arrived.called

    def test_connection_refused_is_temporary(self, given: Subject, desk: Desk) -> None:
        (answer,) = desk.send(make_message(), given.leading_to(f"{given.scheme}://127.0.0.1:{closed_port()}"))
        assert answer.outcome is Outcome.TEMPORARY
        assert answer.message

    def test_a_name_that_does_not_resolve_is_temporary(self, given: Subject, desk: Desk) -> None:
        (answer,) = desk.send(make_message(), given.leading_to(f"{given.scheme}://nowhere.invalid:9"))
        assert answer.outcome is Outcome.TEMPORARY

    @pytest.mark.parametrize("host", LOCAL)
    def test_a_forbidden_address_is_refused_when_dialled(self, given: Subject, desk: Desk, host: str) -> None:
        port = desk.providers.url.rpartition(":")[2]
        desk.network = Network(timeout_s=1.0, smtp_timeout_s=1.0)
        (answer,) = desk.send(make_message(), given.leading_to(f"{given.scheme}://{host}:{port}"))
        assert answer.outcome is Outcome.REFUSED
        assert not desk.providers.messages()

    def test_the_address_is_one_that_is_checked_when_saved(self, given: Subject) -> None:
        url = f"{given.scheme}://127.0.0.1:1"
        assert any("127.0.0.1" in target for target in given.leading_to(url).targets())

    def test_of_nothing_sent_nothing_is_known(self, given: Subject, desk: Desk) -> None:
        assert given.adapter.receipts((), desk.channel(), desk.network, desk.now) == ()

    def test_a_provider_that_cannot_be_asked_says_nothing(self, given: Subject, desk: Desk) -> None:
        config = given.leading_to(f"{given.scheme}://127.0.0.1:{closed_port()}")
        sent = [Sent("dlv_01", to, desk.now, None) for to in given.adapter.addressed(config, None)]
        assert given.adapter.receipts(sent, config, desk.network, desk.now) == ()

    def test_whom_a_send_is_for_is_named_by_what_is_left(self, given: Subject, desk: Desk) -> None:
        config = desk.channel()
        everybody = given.adapter.addressed(config, None)
        assert everybody
        assert given.adapter.addressed(config, everybody) == everybody

    def test_limits_are_of_something(self, given: Subject, desk: Desk) -> None:
        for meter in desk.channel().meters().values():
            for limit in given.adapter.limits_of(meter, desk.now):
                assert limit.count > 0
                assert limit.per

    @pytest.mark.parametrize("severity", list(Severity))
    def test_a_short_message_takes_as_many_sends_as_is_said(
        self, given: Subject, desk: Desk, severity: Severity
    ) -> None:
        config = desk.channel(**given.mentioned)
        told = given.adapter.sends(split(config)[0], severity)
        assert told == len(desk.parts(make_message(severity=severity), config))

    FAILURES: ClassVar[Mapping[str, tuple[Scripted, ...]]] = {
        "closed port": (),
        "refused": (Scripted(200, {"errcode": 1, "code": 1, "errmsg": CANARY, "msg": CANARY}),),
        "echoed": (Scripted(500, f"no such hook: {CANARY} {quote(CANARY, safe='')}"),),
        "broken off": (Scripted(close="before"),),
    }

    @pytest.mark.parametrize("failure", FAILURES)
    def test_no_secret_in_anything_that_is_kept(self, given: Subject, desk: Desk, failure: str) -> None:
        base = f"http://127.0.0.1:{closed_port()}" if failure == "closed port" else desk.providers.url
        config = given.telltale(base, desk.providers)
        if given.scheme == "http":
            desk.providers.script(given.played, *self.FAILURES[failure])
        answers = desk.send(make_message(text=f"leak {CANARY} {_b64('x ' + CANARY)}"), config)
        assert not leaks([repr(answer) for answer in answers])


def leaks(kept: Any) -> list[str]:
    """The forms of CANARY that can be read in it."""
    text = kept if isinstance(kept, str) else json.dumps(kept, ensure_ascii=False)
    forms = (CANARY, quote(CANARY, safe=""), _b64(CANARY), _b64("x " + CANARY)[8:24], CANARY[8:])
    return [form for form in forms if form in text]


def closed_port() -> int:
    """A port at which nobody listens."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
