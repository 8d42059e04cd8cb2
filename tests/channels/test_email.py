"""Mail over a real SMTP conversation: what is in it, and what each reply means for each recipient."""

import ssl
from dataclasses import replace
from datetime import UTC, datetime
from email import message_from_string
from email.policy import default
from ipaddress import ip_network

import pytest

from channels.base import Mend, Outcome, Severity
from channels.email import Email, EmailConfig
from channels.smtp import MailServer, Reply
from channels.standin import StandIn
from channels.transport import Network

NOW = datetime(2026, 11, 29, 3, 12, 41, tzinfo=UTC)
A, B, C = "a@example.com", "b@example.com", "c@example.com"
DELIVERED, TEMPORARY, REFUSED = Outcome.DELIVERED, Outcome.TEMPORARY, Outcome.REFUSED
BROKEN, AMBIGUOUS = Outcome.CHANNEL_BROKEN, Outcome.AMBIGUOUS


class Post:
    """Sends mail to the stand-in and hands back the answer."""

    def __init__(self, providers: StandIn, network: Network) -> None:
        self.providers = providers
        self.network = network

    def config(self, *to, **more):
        url = more.pop("smtp_url", self.providers.smtp_url)
        return EmailConfig.model_validate({"to": to or (A,), "smtp_url": url, **more})

    def send(self, message, *to, only=None, **more):
        config = self.config(*to, **more)
        (part,) = Email().parts(message, config)
        return Email().send(part, config, self.network, NOW, only)

    def mail(self):
        (received,) = self.providers.messages("email")
        return message_from_string(received.body, policy=default)


@pytest.fixture
def post(providers, network):
    return Post(providers, network)


def told(answer):
    return {recipient.to: recipient.outcome for recipient in answer.recipients}


def test_subject_and_both_bodies_survive_a_parser(post, message):
    post.send(message())
    mail = post.mail()
    assert mail["Subject"] == "llm-训练 🔥 failed"
    assert [part.get_content_type() for part in mail.iter_parts()] == ["text/plain", "text/html"]
    assert "rank 3 on node-b" in mail.get_body(("plain",)).get_content()


def test_a_no_break_space_in_the_subject(post, message):
    post.send(message(title="任务 llm-训练 🔥 失败\u00a0"))
    assert post.mail()["Subject"] == "任务 llm-训练 🔥 失败"


def test_headers_that_mark_and_thread_it(post, message):
    post.send(message())
    mail = post.mail()
    assert mail["Message-ID"] == "<dlv_01@localhost>"
    assert mail["References"] == mail["In-Reply-To"] == "<alert_01@localhost>"
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail["Date"] == "Sun, 29 Nov 2026 03:12:41 +0000"
    assert mail["Importance"] == "high"


def test_a_resolve_is_in_the_same_thread_and_not_urgent(post, message):
    post.send(message(id="dlv_02", status="resolved"))
    mail = post.mail()
    assert (mail["References"], mail["Importance"]) == ("<alert_01@localhost>", None)


def test_the_same_delivery_has_the_same_message_id_on_every_try(post, message):
    first, second = post.send(message()), post.send(message())
    assert first.message_id == second.message_id == "<dlv_01@localhost>"


def test_nothing_but_seven_bits_leaves(post, message):
    post.send(message(plain="训练失败 " * 500))
    (received,) = post.providers.messages("email")
    assert received.body.isascii()
    assert max(map(len, received.body.splitlines())) <= 998


@pytest.mark.parametrize(
    ("sender", "shown"),
    [
        ("f@example.com", "f@example.com"),
        ("Faultcast 告警 <f@example.com>", "Faultcast 告警 <f@example.com>"),
    ],
)
def test_the_channels_own_sender(post, message, sender, shown):
    answer = post.send(message(), **{"from": sender})
    assert post.mail()["From"] == shown
    assert answer.message_id == "<dlv_01@example.com>"


def test_leading_dots_arrive(post, message):
    post.send(message(plain=".\n.hidden\n..\nend", html=None))
    assert post.mail().get_content().splitlines() == [".", ".hidden", "..", "end"]


def test_all_are_named_only_those_still_to_be_told_are_sent_to(post, message):
    answer = post.send(message(), A, B, cc=[C], only=frozenset({B}))
    (received,) = post.providers.messages("email")
    assert received.called == (B,)
    assert received.headers["to"] == f"{A}, {B}"
    assert received.headers["cc"] == C
    assert told(answer) == {B: DELIVERED}


def test_when_nobody_is_left_nothing_is_sent(post, message):
    assert post.send(message(), only=frozenset()).outcome is DELIVERED
    assert post.providers.messages("email") == []


def test_one_address_twice_is_told_once(post, message):
    assert told(post.send(message(), A, A, cc=[A])) == {A: DELIVERED}


def test_one_unknown_mailbox_stops_nobody(post, message):
    post.providers.mail.recipients[B] = "550 5.1.1 no such user"
    answer = post.send(message(), A, B, C)
    assert told(answer) == {A: DELIVERED, B: REFUSED, C: DELIVERED}
    assert answer.outcome is REFUSED
    assert answer.recipients[1].code == "550 5.1.1"
    assert B in answer.message


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        ("450 4.2.1 mailbox busy", TEMPORARY),
        ("451 4.7.1 greylisted", TEMPORARY),
        ("452 4.5.3 too many recipients", TEMPORARY),
        ("421 4.7.0 closing", TEMPORARY),
        ("550 4.2.2 the class digit goes first", TEMPORARY),
        ("552 too many recipients, as RFC 5321 has it", TEMPORARY),
        ("552 5.2.2 mailbox full", REFUSED),
        ("550 5.1.1 no such user", REFUSED),
        ("551 5.1.6 moved", REFUSED),
        ("553 5.1.3 bad address", REFUSED),
        ("554 5.7.1 relay access denied", REFUSED),
        ("530 5.7.0 authentication required", BROKEN),
    ],
)
def test_replies_to_a_recipient(post, message, reply, outcome):
    post.providers.mail.recipients[B] = reply
    answer = post.send(message(), A, B)
    assert told(answer) == {A: DELIVERED, B: outcome}
    assert answer.outcome is outcome
    assert not answer.mend


def test_when_nobody_is_taken_no_content_is_sent(post, message):
    post.providers.mail.recipients[A] = "550 5.1.1 no such user"
    assert post.send(message()).outcome is REFUSED
    assert post.providers.messages("email") == []


@pytest.mark.parametrize(
    ("reply", "outcome", "mend"),
    [
        ("250 2.0.0 queued as 4711", DELIVERED, None),
        ("451 4.3.0 try again", TEMPORARY, None),
        ("452 4.3.1 no space", TEMPORARY, None),
        ("552 5.3.4 message too big", REFUSED, Mend.SHORTEN),
        ("552 message too big", REFUSED, Mend.SHORTEN),
        ("554 5.7.1 looks like spam", REFUSED, None),
        ("550 5.6.0 bad content", REFUSED, None),
    ],
)
def test_replies_to_the_content(post, message, reply, outcome, mend):
    post.providers.mail.content.append(reply)
    answer = post.send(message(), A, B)
    assert told(answer) == {A: outcome, B: outcome}
    assert (answer.outcome, answer.mend) == (outcome, mend)
    assert reply.split(" ", 1)[1] in answer.message


@pytest.mark.parametrize(
    ("reply", "outcome", "mend"),
    [
        ("451 4.3.0 try again", TEMPORARY, None),
        ("550 5.7.1 sender not allowed", BROKEN, None),
        ("553 5.7.1 not your address", BROKEN, None),
        ("552 5.3.4 message too big", REFUSED, Mend.SHORTEN),
    ],
)
def test_replies_to_the_sender(post, message, reply, outcome, mend):
    post.providers.mail.senders["faultcast@localhost"] = reply
    answer = post.send(message())
    assert (answer.outcome, answer.mend) == (outcome, mend)
    assert told(answer) == {A: outcome}


def test_an_answer_lost_after_the_final_dot_is_ambiguous(post, message):
    post.providers.mail.content.append("close")
    post.providers.mail.recipients[B] = "550 5.1.1 no such user"
    answer = post.send(message(), A, B)
    assert told(answer) == {A: AMBIGUOUS, B: REFUSED}
    assert answer.outcome is AMBIGUOUS
    assert answer.message_id == "<dlv_01@localhost>"
    assert len(post.providers.messages("email", accepted=True)) == 1


def test_an_answer_that_comes_too_late_is_ambiguous(post, message):
    post.providers.mail.delay_s = 3
    answer = post.send(message())
    assert answer.outcome is AMBIGUOUS
    assert "in time" in answer.message


def test_a_login(post, message):
    post.providers.mail.logins = {"alerts": "hunter2-pass"}
    url = post.providers.smtp_url.replace("//", "//alerts:hunter2-pass@")
    assert post.send(message(), smtp_url=url).outcome is DELIVERED


def test_a_wrong_password_breaks_the_channel_and_is_not_told(post, message):
    post.providers.mail.logins = {"alerts": "hunter2-pass"}
    url = post.providers.smtp_url.replace("//", "//alerts:wrong-password@")
    answer = post.send(message(), smtp_url=url)
    assert (answer.outcome, answer.code) == (BROKEN, "535 5.7.8")
    assert "wrong-password" not in repr(answer)


def test_a_missing_login_breaks_the_channel(post, message):
    post.providers.mail.logins = {"alerts": "hunter2-pass"}
    assert post.send(message()).outcome is BROKEN


def test_starttls_is_required(post, message):
    answer = post.send(message(), smtp_url=post.providers.smtp_url.partition("?")[0])
    assert answer.outcome is BROKEN
    assert "starttls=off" in answer.message
    assert post.providers.messages("email") == []


def test_no_server_at_all(post, message):
    answer = post.send(message(), smtp_url=None)
    assert answer.outcome is BROKEN
    assert "FAULTCAST_SMTP_URL" in answer.message


def test_the_operators_own_server_is_exempt_from_the_guard(providers, message):
    guarded = Network(smtp_url=providers.smtp_url + "&from=ops@example.com", smtp_timeout_s=1.0)
    answer = Post(providers, guarded).send(message(), smtp_url=None)
    assert answer.outcome is DELIVERED
    assert providers.messages("email")[0].headers["from"] == "ops@example.com"


def test_a_channels_own_server_is_not(providers, message):
    guarded = Network(smtp_url=providers.smtp_url, smtp_timeout_s=1.0)
    assert Post(providers, guarded).send(message()).outcome is REFUSED


def test_the_operators_password_is_hidden_too(post, message):
    url = post.providers.smtp_url.replace("//", "//ops:hunter2-pass@")
    post.network = Network(allow=post.network.allow, smtp_url=url, smtp_timeout_s=1.0)
    answer = post.send(message(plain="leak hunter2-pass"), smtp_url=None)
    assert "hunter2-pass" not in repr(answer)


def test_a_long_text_is_cut_short_visibly(post, message):
    post.network = replace(post.network, smtp_timeout_s=60.0)  # the stand-in reads line by line
    answer = post.send(message(plain="culprit: rank 3\n" + "line\n" * 100_000, html=None))
    assert answer.outcome is DELIVERED
    text = post.mail().get_content()
    assert text.startswith("culprit: rank 3")
    assert "cut short" in text
    assert len(text.replace("\r\n", "\n")) <= 256 * 1024 + 1


def test_as_plain_text_there_is_no_html(post, message):
    post.send(message(is_plain=True))
    assert post.mail().get_content_type() == "text/plain"


def test_what_is_not_serious_is_not_urgent(post, message):
    post.send(message(severity=Severity.WARNING))
    assert post.mail()["X-Priority"] is None


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("smtp://mail.example.com", MailServer("mail.example.com", 587)),
        ("smtps://mail.example.com", MailServer("mail.example.com", 465, is_implicit=True, starttls=False)),
        (
            "smtp://u:p%40%2F@m.example:25?starttls=off",
            MailServer("m.example", 25, "u", "p@/", starttls=False),
        ),
        ("smtp://m.example?from=f@x.example", MailServer("m.example", 587, sender="f@x.example")),
    ],
)
def test_urls(url, expected):
    assert MailServer.parse(url) == expected


@pytest.mark.parametrize(
    ("url", "sender"),
    [
        ("smtp://m.example?from=f@x.example", "f@x.example"),
        ("smtp://alerts%40x.example:p@m.example", "alerts@x.example"),
        ("smtp://alerts:p@m.example", "faultcast@m.example"),
        ("smtp://10.0.0.1", "faultcast@localhost"),
    ],
)
def test_the_sender_where_none_is_given(url, sender):
    assert MailServer.parse(url).mail_from == sender


@pytest.mark.parametrize(
    ("code", "text", "kind"),
    [
        (250, "2.0.0 OK", 2),
        (250, "OK", 2),
        (550, "5.1.1 x", 5),
        (550, "4.2.2 x", 4),
        (451, "version 5.1.1", 4),
    ],
)
def test_the_class_digit_of_an_enhanced_status_goes_first(code, text, kind):
    assert Reply(code, text).kind == kind


@pytest.fixture
def secure(certificate):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    with StandIn(smtp_tls=context) as standin:
        yield standin


def test_starttls_with_a_certificate_that_is_trusted(secure, message, certificate):
    loopback = (ip_network("127.0.0.0/8"),)
    url = secure.smtp_url.partition("?")[0]
    trusting = Network(allow=loopback, ca_bundle=certificate, smtp_timeout_s=2.0)
    assert Post(secure, trusting).send(message(), smtp_url=url).outcome is DELIVERED
    doubting = Network(allow=loopback, smtp_timeout_s=2.0)
    answer = Post(secure, doubting).send(message(), smtp_url=url)
    assert answer.outcome is TEMPORARY
    assert "certificate is not trusted" in answer.message
