"""Apprise before real receivers: which services may be used, what leaves, what a failure means."""

import logging
import sys
import threading
from datetime import UTC, datetime, timedelta

import apprise
import pytest
from pydantic import ValidationError

from channels.apprise import Apprise, AppriseConfig, service
from channels.apprise_schemes import ALLOWED, OURS
from channels.base import Mend, Outcome, Severity
from channels.config import masked, merge, secrets_of
from channels.standin import Scripted
from channels.transport import Network
from tests.channels.test_transport import saying, serving, whole_request

CANARY = "CANARYq7Zk9secretTOKEN"
NOW = datetime(2026, 11, 29, 4, 0, tzinfo=UTC)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@pytest.fixture
def gotify(providers):
    """A channel to a Gotify server that takes everything."""
    host = providers.url.partition("://")[2]
    providers.robot("any", "here")
    return AppriseConfig(url=f"gotify://{host}/any/here/{CANARY}")


@pytest.fixture
def send(network, message):
    def run(config, over=network, **changes):
        told = message(**changes)
        return [Apprise().send(part, config, over, NOW) for part in Apprise().parts(told, config)]

    return run


@pytest.mark.parametrize("status", ["firing", "resolved"])
def test_it_is_accepted_and_never_delivered(providers, send, gotify, status):
    (answer,) = send(gotify, status=status)
    assert (answer.outcome, answer.http_status) == (Outcome.ACCEPTED, 200)
    (arrived,) = providers.messages("any", accepted=True)
    assert arrived.body["title"] == "llm-训练 🔥 failed"
    assert "rank 3 on node-b" in arrived.body["message"]
    assert arrived.headers["x-gotify-key"] == CANARY


@pytest.mark.parametrize(
    "url",
    [
        "ntfy://{host}/topic", "mmost://{host}/3ccdd113474722377935511fc85d3dd4", "apprise://{host}/token",
        "bark://{host}/device", "pushdeer://{host}/key", "notica://{host}/token",
    ],
)  # fmt: skip
def test_other_services_over_their_own_hosts(send, url):
    """Some of them want to read more in the body than the status."""
    with serving(saying(OK)) as port:
        (answer,) = send(AppriseConfig(url=url.format(host=f"127.0.0.1:{port}")))
    assert answer.outcome in (Outcome.ACCEPTED, Outcome.TEMPORARY)
    assert answer.http_status == 200


@pytest.mark.parametrize(
    ("status", "outcome", "mend"),
    [
        (401, Outcome.CHANNEL_BROKEN, None), (403, Outcome.CHANNEL_BROKEN, None),
        (404, Outcome.CHANNEL_BROKEN, None), (410, Outcome.CHANNEL_BROKEN, None),
        (400, Outcome.REFUSED, None), (408, Outcome.TEMPORARY, None),
        (413, Outcome.REFUSED, Mend.SHORTEN), (422, Outcome.REFUSED, None), (429, Outcome.THROTTLED, None),
        (500, Outcome.TEMPORARY, None), (503, Outcome.TEMPORARY, None), (302, Outcome.REFUSED, None),
    ],
)  # fmt: skip
def test_what_a_failure_means(providers, send, gotify, status, outcome, mend):
    away = providers.robot("webhook", "elsewhere").url
    providers.script("any", Scripted(status, "oops", {"Location": away}))
    (answer,) = send(gotify)
    assert (answer.outcome, answer.http_status, answer.mend) == (outcome, status, mend)
    assert f"error={status}" in answer.message
    assert "oops" in answer.response
    assert len(providers.messages()) == 1  # neither tried again nor sent elsewhere


def test_the_wait_that_is_asked_for(providers, send, gotify):
    providers.script("any", Scripted(429, "", {"Retry-After": "7"}))
    assert send(gotify)[0].retry_after == timedelta(seconds=7)


def test_a_lost_answer_is_ambiguous(providers, send, gotify):
    providers.script("any", Scripted(close="before"), Scripted(delay_s=2.5))
    (cut,) = send(gotify)
    (late,) = send(gotify, over=Network(allow=None, timeout_s=1.0))
    assert (cut.outcome, late.outcome) == (Outcome.AMBIGUOUS, Outcome.AMBIGUOUS)
    assert len(providers.messages("any")) == 2


def test_nobody_listens(send):
    (answer,) = send(AppriseConfig(url=f"gotify://127.0.0.1:9/{CANARY}"))
    assert (answer.outcome, answer.code) == (Outcome.TEMPORARY, "not_sent")
    assert "connection refused" in answer.message


def test_a_private_address_is_refused(providers, send, gotify):
    (answer,) = send(gotify, over=Network(timeout_s=1.0))
    assert (answer.outcome, answer.code) == (Outcome.REFUSED, "forbidden_target")
    assert providers.messages() == []


def test_what_the_environment_says_of_proxies_is_not_heard(send, gotify, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    assert send(gotify)[0].outcome is Outcome.ACCEPTED


def test_through_the_proxy(send):
    seen = []

    def talk(sock):
        seen.append(sock.recv(65536).partition(b"\r\n")[0])
        sock.sendall(OK)

    with serving(talk) as port:
        (answer,) = send(
            AppriseConfig(url="gotify://8.8.8.8/token"),
            over=Network(proxy=f"http://127.0.0.1:{port}", timeout_s=2.0),
        )
    assert answer.outcome is Outcome.ACCEPTED
    assert seen == [b"POST http://8.8.8.8/message HTTP/1.1"]


def test_it_neither_retries_nor_sleeps_nor_trusts_what_it_is_told():
    plugin = service("gotify://127.0.0.1/token")
    plugin.throttle(wait=600)
    assert (plugin.retry, plugin.redirects, plugin.verify_certificate) == (0, False, True)
    assert plugin.request_rate_per_sec == 0


@pytest.mark.parametrize("scheme", sorted(OURS))
def test_what_has_a_kind_of_its_own(scheme):
    with pytest.raises(ValidationError, match=f"make a channel of kind {OURS[scheme].split()[0]}"):
        AppriseConfig(url=f"{scheme}://user:pass@example.com/{CANARY}")


@pytest.mark.parametrize(
    "scheme",
    [
        "dbus", "syslog", "rsyslog", "windows", "macosx", "gnome", "kde", "qt", "glib", "gio", "mqtt",
        "mqtts", "amqp", "smpp", "xmpp", "irc", "growl", "blink1", "aprs", "file", "memory", "fcm",
        "vapid", "nostr", "deltachat", "ses", "custom", "myplugin", "ftp", "gopher",
    ],
)  # fmt: skip
def test_what_may_not_be_used(scheme):
    with pytest.raises(ValidationError, match="none of the services") as refused:
        AppriseConfig(url=f"{scheme}://example.com/{CANARY}")
    assert CANARY not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "", "x", CANARY, f"gotify:/{CANARY}", "gotify://", "gotify://host", "slack://x", "tgram://x", "://x/y",
        f"gotify://host/a\nb/{CANARY}", f"got ify://host/{CANARY}", "gotify://host/" + "x" * 3000, f"gotify://[::/{CANARY}",
    ],
)  # fmt: skip
def test_what_cannot_be_read_gives_one_clear_error(url):
    with pytest.raises(ValidationError) as refused:
        AppriseConfig(url=url)
    (fault,) = refused.value.errors()
    assert fault["loc"] == ("url",)
    assert CANARY not in str(refused.value)


@pytest.mark.parametrize(
    "query",
    [
        "retry=3", "wait=5", "redirect=yes", "cto=60", "rto=60", "overflow=split", "verify=no", "VERIFY=no",
        "optional=yes", "re%74ry=3", "store=yes", "emojis=yes", "template=/etc/passwd", "a=b&retry=1",
    ],
)  # fmt: skip
def test_what_is_not_for_the_url_to_decide(query):
    with pytest.raises(ValidationError, match="leave "):
        AppriseConfig(url=f"gotify://127.0.0.1/{CANARY}?{query}")


def test_no_file_of_this_machine_is_read(tmp_path):
    (tmp_path / "t.json").write_text('{"text": "secret"}')
    for url in (f"slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/?template={tmp_path}/t.json",):
        with pytest.raises(ValidationError, match="template"):
            AppriseConfig(url=url)
        assert service(url) is None


def test_every_allowed_scheme_is_apprises_and_speaks_http():
    service("ntfy://topic")
    known = apprise.manager_plugins.NotificationManager()
    for scheme in sorted(ALLOWED):
        sources = [sys.modules[one.__module__] for one in known[scheme].__mro__]
        assert any(hasattr(source, "requests") for source in sources[:2]), scheme
        assert known[scheme].enabled, scheme


@pytest.mark.parametrize(
    ("url", "targets"),
    [
        ("gotify://10.0.0.1:8080/token", ("http://10.0.0.1:8080",)),
        ("gotifys://push.example.com/token", ("https://push.example.com",)),
        ("ntfy://ntfy.example.com/topic", ("http://ntfy.example.com",)),
        ("ntfy://topic", ()),
        ("slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/", ()),
        ("tgram://123456789:abcdefg_hijklmnop/12315544/", ()),
    ],
)
def test_hosts_of_the_users_are_checked_when_saved(url, targets):
    assert AppriseConfig(url=url).targets() == targets


def test_the_url_is_shown_by_its_scheme_only():
    config = AppriseConfig(url=f"tgram://123456789:{CANARY}/12315544/")
    assert masked(config) == {"url": "tgram://***"}
    assert merge(AppriseConfig, {"url": "tgram://***"}, config) == config
    assert CANARY in secrets_of(config)
    with pytest.raises(ValidationError, match="masked"):
        merge(AppriseConfig, {"url": "slack://***"}, config)


def test_no_secret_is_kept_or_logged(providers, send, caplog):
    caplog.set_level(logging.DEBUG)
    host = providers.url.partition("://")[2]
    providers.robot("any", "here")
    providers.script("any", Scripted(500, f"no {CANARY}"), Scripted(close="before"))
    for url in (
        f"gotify://{host}/any/here/{CANARY}", f"gotify://{host}/any/here/{CANARY}",
        f"ntfy://{CANARY}:{CANARY}@{host}/any/here", f"gotify://127.0.0.1:9/{CANARY}",
    ):  # fmt: skip
        (answer,) = send(AppriseConfig(url=url), text=f"leak {CANARY}")
        assert CANARY not in f"{answer}"
    assert CANARY not in caplog.text
    assert "leak" not in caplog.text


def test_apprise_is_silent_outside_as_well(caplog):
    caplog.set_level(logging.DEBUG)
    service(f"gotify://host?{CANARY}")
    logging.getLogger("apprise").error(CANARY)
    assert CANARY not in caplog.text


@pytest.mark.parametrize(
    ("url", "most"),
    [
        ("gotify://127.0.0.1/token", 32768), ("mmost://127.0.0.1/3ccdd113474722377935511fc85d3dd4", 4000),
        ("tgram://123456789:abcdefg_hijklmnop/12315544/", 4096), ("ntfy://127.0.0.1/topic", 7800),
        ("discord://1234567890/AbCdEf_123", 2000),
        ("msgbird://" + "a" * 25 + "/14150000001/14150000002", 160),
        ("plivo://abcdefghijklmnopqrst@" + "b" * 40 + "/15551233456/15551234567", 140),
        ("pover://" + "u" * 30 + "@" + "t" * 30, 1024),
    ],
)  # fmt: skip
@pytest.mark.parametrize("text", ["", "short", "行\n" * 20_000, "x" * 50_000, "@<](" * 10_000])
@pytest.mark.parametrize("title", ["", "t", "<@标题>" * 200])
def test_parts_fit_what_the_service_takes(message, url, most, text, title):
    config = AppriseConfig(url=url)
    parts = Apprise().parts(message(text=Apprise().escape(text), title=title), config)
    plugin = service(url)
    is_apart = plugin.title_maxlen > 0 and not plugin.overflow_amalgamate_title
    assert 1 <= len(parts) <= 3
    assert [(part.n, part.of) for part in parts] == [(n, len(parts)) for n in range(1, len(parts) + 1)]
    for part in parts:
        shown, body = part.payload["title"], part.payload["text"]
        assert len(shown) <= (plugin.title_maxlen or most)
        assert len(body) + (0 if is_apart else len(shown)) <= most
        assert "<@" not in shown
    if len(text) > 4 * most:
        assert len(parts) == 3
        assert "cut short" in parts[-1].payload["text"] or "已截断" in parts[-1].payload["text"]


def test_nobody_is_called_by_data(message):
    hostile = "@everyone <!channel> <@U123> [click](http://evil.example) https://ok.example"
    escaped = Apprise().escape(hostile)
    assert not [mark for mark in ("@everyone", "<!", "<@", "](") if mark in escaped]
    (part,) = Apprise().parts(message(title=hostile), AppriseConfig(url="gotify://127.0.0.1/token"))
    assert not [mark for mark in ("@everyone", "<!", "<@", "](") if mark in part.payload["title"]]


@pytest.mark.parametrize(("severity", "known"), [(Severity.INFO, b"info"), (Severity.CRITICAL, b"failure")])
def test_severities_are_apprises_types(send, severity, known):
    seen = []

    def talk(sock):
        seen.append(whole_request(sock))
        sock.sendall(OK)

    with serving(talk) as port:
        send(AppriseConfig(url=f"apprise://127.0.0.1:{port}/token"), severity=severity)
    assert b"type=" + known in seen[0]


def test_apprise_starts_no_pool_of_threads(send, gotify):
    """A pool's thread would live in the block that it was begun in, not in that of its work."""
    send(gotify)
    assert not [one.name for one in threading.enumerate() if "pool" in one.name.lower()]


def test_a_plugin_that_fails_by_itself(send, gotify, monkeypatch):
    plugin = type(service(gotify.url.get_secret_value()))

    def broken(self, *args, **more):
        raise KeyError(CANARY)

    monkeypatch.setattr(plugin, "send", broken)
    (answer,) = send(gotify)
    assert (answer.outcome, answer.code) == (Outcome.TEMPORARY, "not_sent")
    assert CANARY not in str(answer)
