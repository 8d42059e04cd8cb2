"""Channels of texts and calls: what their configs accept, say and count; over TLS; and who is called."""

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network

import pytest
from pydantic import ValidationError

from channels.base import Message, Outcome, Sent, Severity
from channels.config import join, masked, merge, secrets_of, split
from channels.cutting import shortened
from channels.registry import ADAPTERS
from channels.standin import StandIn
from channels.telecom import config as telecom
from channels.telecom.base import PHONE, SMS
from channels.transport import Network
from tests.channels.telecom import ALICE, BOB, TEXT, Line
from tests.channels.test_transport import serving

ALIYUN = {"access_key_id": "ID-TOKEN123", "access_key_secret": "SECRET-TOKEN123"}
TEXTS = {
    "aliyun": {
        "provider": "aliyun", "to": [ALICE, BOB], "credentials": ALIYUN, "template_id": "SMS_1",
        "sign_name": "故障通", "params": {"job": "{{ job }}"},
    },
    "baidu": {
        "provider": "baidu", "to": [ALICE], "credentials": ALIYUN, "template_id": "sms-tmpl-1",
        "sign_name": "sms-sign1",
    },
}  # fmt: skip
CALLS = {
    "aliyun": {
        "provider": "aliyun", "to": [ALICE, BOB], "credentials": ALIYUN, "template_id": "TTS_1",
        "play_times": 2, "called_show_number": "057112345678", "params": {},
    },
}  # fmt: skip


def faults(kind, given):
    with pytest.raises(ValidationError) as refused:
        merge(ADAPTERS[kind].Config, given, None)
    return {".".join(map(str, one["loc"])): one["msg"] for one in refused.value.errors()}


@pytest.mark.parametrize("given", [*TEXTS.values(), *CALLS.values()])
def test_configs_that_are_taken(given):
    kind = SMS if given in TEXTS.values() else PHONE
    config = ADAPTERS[kind].Config.model_validate(given)
    plain, secret = split(config)
    assert join(ADAPTERS[kind].Config, plain, secret) == config
    assert "TOKEN123" not in str(plain) + str(masked(config)) + repr(config)
    assert masked(config)["credentials"] == {"access_key_id": "***", "access_key_secret": "***"}
    assert merge(ADAPTERS[kind].Config, masked(config), config) == config
    assert {"ID-TOKEN123", "SECRET-TOKEN123"} <= set(secrets_of(config))


REFUSED = {
    "no such provider": ({"provider": "nokia"}, "provider", "none of aliyun, baidu, tencent, twilio"),
    "credentials of another": (
        {"credentials": {"secret_id": "a", "secret_key": "b"}},
        "credentials",
        "access_key_id and access_key",
    ),
    "half the credentials": ({"credentials": {"access_key_id": "a"}}, "credentials", "access_key_secret"),
    "empty secret": ({"credentials": {**ALIYUN, "access_key_secret": ""}}, "access_key_secret", "printable"),
    "no number": ({"to": []}, "to", "at least 1"),
    "too many numbers": ({"to": [f"+86138{n:08}" for n in range(101)]}, "to", "at most 100"),
    "no E.164": ({"to": ["13800001111"]}, "to.0", "E.164"),
    "no template": ({"template_id": None}, "template_id", "approved templates"),
    "no sign": ({"sign_name": None}, "sign_name", "signature"),
    "a list of params": ({"params": ["x"]}, "params", "give a map"),
    "a name that is none": ({"params": {"a b": "x"}}, "params", "letters, digits"),
    "too many params": ({"params": {f"v{n}": "x" for n in range(21)}}, "params", "20"),
    "what Tencent has": ({"app_id": "1400006666"}, "app_id", "leave it out"),
    "what Twilio has": ({"from": "+1202"}, "from", "leave it out"),
    "an unknown field": ({"play_times": 2}, "play_times", "not permitted"),
    "an endpoint with a path": ({"endpoint": "https://a.cn/x"}, "endpoint", "without a path"),
    "another scheme": ({"endpoint": "ftp://a.cn"}, "endpoint", "without a path"),
    "a login in the endpoint": ({"endpoint": "https://a:b@c.cn"}, "endpoint", "without a path"),
    "a line break in the endpoint": ({"endpoint": "a.cn\r\nx: y"}, "endpoint", "without a path"),
    "a port that is none": ({"endpoint": "a.cn:99999"}, "endpoint", "without a path"),
}


@pytest.mark.parametrize(("changes", "field", "mend"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_is_named_with_its_mend(changes, field, mend):
    told = faults(SMS, {**TEXTS["aliyun"], **changes})
    assert any(where == field or field in where.split(".") for where in told), told
    assert mend in " ".join(told.values())


@pytest.mark.parametrize("missing", ["provider", "to", "credentials"])
def test_a_missing_field_is_named(missing):
    given = {name: value for name, value in TEXTS["aliyun"].items() if name != missing}
    assert faults(SMS, given) == {missing: "Field required"}


@pytest.fixture
def without_sdk(monkeypatch):
    monkeypatch.setattr(type(telecom.provider("aliyun")), "module", "no_such_module.at_all")


def test_a_provider_whose_sdk_is_not_installed_is_refused_when_the_channel_is_saved(without_sdk):
    (said,) = faults(SMS, TEXTS["aliyun"]).values()
    assert "aliyun needs its SDK: pip install 'faultcast[aliyun]'" in said


@pytest.mark.parametrize(("kind", "given"), [(SMS, TEXTS["aliyun"]), (PHONE, CALLS["aliyun"])])
def test_a_worker_without_the_sdk_says_so(without_sdk, network, kind, given):
    adapter = ADAPTERS[kind]
    config = adapter.Config.model_validate(given)
    (part,) = adapter.parts(Message("d", "t", "x", "x", Severity.ERROR), config)
    answer = adapter.send(part, config, network, datetime.now(UTC))
    assert (answer.outcome, answer.code) == (Outcome.CHANNEL_BROKEN, "no_sdk")
    assert "faultcast[aliyun]" in answer.message
    assert (
        adapter.receipts([Sent("d", ALICE, datetime.now(UTC), "m")], config, network, datetime.now(UTC)) == ()
    )


def test_a_provider_without_calls():
    given = {**CALLS["aliyun"], "provider": "baidu"}
    assert "baidu offers no phone: give one of aliyun, tencent, twilio" in faults(PHONE, given)["provider"]


@pytest.mark.parametrize(
    ("endpoint", "target"),
    [
        ("dysms.example.com", "https://dysms.example.com"),
        ("dysms.example.com:8443", "https://dysms.example.com:8443"),
        ("http://127.0.0.1:80", "http://127.0.0.1:80"),
        ("https://a.cn/", "https://a.cn"),
        ("[::1]:80", "https://[::1]:80"),
    ],
)
def test_an_endpoint_is_a_target(endpoint, target):
    config = ADAPTERS[SMS].Config.model_validate({**TEXTS["aliyun"], "endpoint": endpoint})
    assert config.targets() == (target,)


def test_without_an_endpoint_there_is_no_target_to_check():
    assert ADAPTERS[SMS].Config.model_validate(TEXTS["aliyun"]).targets() == ()


def test_a_number_twice_is_told_once():
    config = ADAPTERS[SMS].Config.model_validate({**TEXTS["aliyun"], "to": [ALICE, BOB, ALICE]})
    assert config.to == (ALICE, BOB)


def test_channels_of_one_account_share_a_meter_where_the_provider_counts_together():
    def meters(kind, given, **changes):
        return ADAPTERS[kind].Config.model_validate({**given, **changes}).meters()

    usual = meters(SMS, TEXTS["aliyun"])
    assert usual == meters(SMS, TEXTS["aliyun"], credentials={**ALIYUN, "access_key_secret": "rotated"})
    assert not set(usual.values()) & set(meters(SMS, TEXTS["aliyun"], template_id="SMS_2").values())
    assert not set(usual.values()) & set(meters(PHONE, CALLS["aliyun"]).values())
    calls = meters(PHONE, CALLS["aliyun"])
    assert calls == meters(PHONE, CALLS["aliyun"], template_id="TTS_2")
    assert list(usual) == [ALICE, BOB]
    assert usual[ALICE].startswith("sms:aliyun:")
    assert usual[ALICE].endswith(f":{ALICE}")
    assert "TOKEN123" not in str(usual)


def test_a_meter_says_what_it_allows():
    sms, phone = ADAPTERS[SMS], ADAPTERS[PHONE]
    limits = sms.limits_of(f"sms:aliyun:0123:{ALICE}", None)
    assert [(one.count, one.per) for one in limits] == [(50, timedelta(days=1))]
    assert len(phone.limits_of(f"phone:aliyun:0123:{ALICE}", None)) == 3


def test_templates_are_named_or_counted():
    made = ADAPTERS[SMS].Config.model_validate
    assert made(TEXTS["aliyun"]).templates() == {"job": "{{ job }}"}
    assert made({**TEXTS["aliyun"], "params": []}).templates() == {}
    counted = ADAPTERS[SMS].Config.model_construct(**{**TEXTS["aliyun"], "params": ("a", "b")})
    assert list(counted.templates().items()) == [("1", "a"), ("2", "b")]


def test_receipts_are_asked_for_where_there_are_any():
    times = {
        name: ADAPTERS[SMS].receipt_times(ADAPTERS[SMS].Config.model_validate(given))
        for name, given in TEXTS.items()
    }
    assert times["aliyun"][0] <= timedelta(seconds=30)
    assert times["baidu"] == ()


def test_people_are_called_one_at_a_time():
    phone, config = ADAPTERS[PHONE], ADAPTERS[PHONE].Config.model_validate(CALLS["aliyun"])
    assert phone.is_sequential
    assert not ADAPTERS[SMS].is_sequential
    assert phone.addressed(config, None) == (ALICE,)
    assert phone.addressed(config, [BOB]) == (BOB,)
    assert phone.addressed(config, []) == ()
    assert ADAPTERS[SMS].addressed(ADAPTERS[SMS].Config.model_validate(TEXTS["aliyun"]), None) == (ALICE, BOB)


@pytest.fixture
def secure(certificate):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    standin = StandIn()
    standin._server.socket = context.wrap_socket(standin._server.socket, server_side=True)
    with standin:
        yield standin


@pytest.mark.parametrize("name", TEXTS)
def test_tls_trusts_what_the_network_trusts(secure, certificate, name):
    account = secure.account(
        name, signs=frozenset({TEXTS[name]["sign_name"]}), templates={TEXTS[name]["template_id"]: TEXT}
    )
    keys = {"access_key_id": account.key, "access_key_secret": account.secret}
    endpoint = account.endpoint.replace("http:", "https:")
    for trusted, outcome in ((None, Outcome.TEMPORARY), (certificate, Outcome.ACCEPTED)):
        network = Network(allow=(ip_network("127.0.0.0/8"),), timeout_s=3.0, ca_bundle=trusted)
        line = Line(
            secure, network, SMS, account, **{**TEXTS[name], "endpoint": endpoint, "credentials": keys}
        )
        answer = line.send()
        assert answer.outcome is outcome, answer
    assert len(secure.messages()) == 1


@pytest.mark.parametrize(
    ("changes", "warning"),
    [
        ({"params": {"job": "{{ job }}"}}, None),
        ({"params": {"job": "x" * 36}}, "params.job: its fixed text alone is longer than the 35 characters"),
        ({"params": {"job": "{{ link }} https://a.cn"}}, "params.job: no link or address"),
        ({"to": [ALICE, "+85291234567"]}, "to: numbers abroad need a template of their own"),
    ],
)
def test_a_lint_warns_of_what_is_sure_to_come_out_otherwise(changes, warning):
    found = ADAPTERS[SMS].Config.model_validate({**TEXTS["aliyun"], **changes}).lint()
    assert [one[: len(warning or "")] for one in found] == ([warning] if warning else [])


def test_a_shorter_message_has_short_variables():
    message = Message("d", "t", "x", "x", Severity.ERROR, params={"job": "x" * 30, "node": "node-b"})
    assert shortened(message).params == {"job": "x" * 11 + "…", "node": "node-b"}


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("aliyun", b"CONNECT dysmsapi.aliyuncs.com:443"),
        ("baidu", b"CONNECT smsv3.bj.baidubce.com:443"),
    ],
)
def test_the_usual_host_is_asked_through_the_proxy(name, asked):
    seen = []

    def refuse(sock):
        seen.append(sock.recv(65536).partition(b" HTTP/")[0])
        sock.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")

    with serving(refuse) as port:
        network = Network(proxy=f"http://127.0.0.1:{port}", timeout_s=3.0)
        config = ADAPTERS[SMS].Config.model_validate(TEXTS[name])
        (part,) = ADAPTERS[SMS].parts(Message("d", "t", "x", "x", Severity.ERROR), config)
        answer = ADAPTERS[SMS].send(part, config, network, datetime.now(UTC))
    assert (answer.outcome, answer.code) == (Outcome.TEMPORARY, "not_sent")
    assert seen == [asked]
