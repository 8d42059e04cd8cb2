"""Twilio through its own SDK: what is sent to each number, what each answer means, and what became of it."""

from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree as ET

import pytest
from pydantic import ValidationError

from channels.base import Mend, Outcome, Sent
from channels.phone import Phone, PhoneConfig
from channels.sms import Sms, SmsConfig
from channels.standin import Scripted
from channels.standin.telecom import Fate
from channels.telecom.twilio import Twilio, mark, spoken
from channels.transport import Network

ANN, BOB = "+4915112345678", "+4915187654321"
FROM = "+14155550100"
LOST = [Scripted(close="before"), Scripted(close="middle")]


@pytest.fixture
def account(providers):
    return providers.account("twilio", senders=frozenset({FROM, "MG" + "0" * 32}))


@pytest.fixture
def config(account):
    def make(model=SmsConfig, **changes):
        given = {
            "provider": "twilio", "to": [ANN, BOB], "from": FROM, "endpoint": account.endpoint,
            "credentials": {"account_sid": account.key, "auth_token": account.secret},
        }  # fmt: skip
        return model.model_validate({**given, **changes})

    return make


@pytest.fixture
def send(config, network, message):
    def run(kind=Sms, text="job llm failed on node-b", over=network, now=None, **changes):
        made = config(SmsConfig if kind is Sms else PhoneConfig, **changes)
        (part,) = kind().parts(message(text=text), made)
        return kind().send(part, made, over, now or datetime.now(UTC))

    return run


def outcomes(answer):
    return {one.to: (one.outcome, one.code) for one in answer.recipients}


def parsed(twiml):
    return ET.fromstring(twiml)  # noqa: S314  of our own making


def error(status, code, **more):
    return Scripted(status, {"code": code, "message": "words", "status": status}, **more)


def test_a_text_to_two(providers, send):
    answer = send()
    assert answer.outcome is Outcome.ACCEPTED
    assert {one.outcome for one in answer.recipients} == {Outcome.ACCEPTED}
    assert all(one.message_id.startswith("SM") for one in answer.recipients)
    arrived = providers.messages("sms", accepted=True)
    assert [one.called for one in arrived] == [(ANN,), (BOB,)]
    assert {one.text for one in arrived} == {f"job llm failed on node-b {mark('dlv_01')}"}


def test_a_messaging_service_sends(providers, send):
    assert send(**{"from": "MG" + "0" * 32}).outcome is Outcome.ACCEPTED


def test_a_text_of_any_length_fits(providers, send):
    assert send(text="很长🔥" * 2000).outcome is Outcome.ACCEPTED
    (text,) = {one.text for one in providers.messages("sms", accepted=True)}
    assert len(text.encode("utf-16-le")) // 2 <= 1600
    assert text.endswith(f"… {mark('dlv_01')}")


def test_one_of_two_is_refused(send, account):
    account.blocked.add(ANN)
    answer = send()
    assert (answer.outcome, answer.code) == (Outcome.REFUSED, "21610")
    assert outcomes(answer)[BOB][0] is Outcome.ACCEPTED


@pytest.mark.parametrize("script", LOST, ids=["before", "middle"])
def test_a_lost_answer_for_one_does_not_stop_the_other(providers, send, script):
    providers.script("twilio", script)
    answer = send()
    assert answer.outcome is Outcome.AMBIGUOUS
    assert outcomes(answer)[ANN][0] is Outcome.AMBIGUOUS
    assert outcomes(answer)[BOB][0] is Outcome.ACCEPTED
    assert len(providers.messages("sms", accepted=True)) == 2


def test_a_call_speaks_the_language_of_the_text(providers, send):
    answer = send(Phone, text="任务 llm 失败 <a&b>", play_times=3)
    assert answer.outcome is Outcome.ACCEPTED
    assert answer.message_id.startswith("CA")
    (arrived,) = providers.messages("phone", accepted=True)
    assert arrived.called == (ANN,)
    assert arrived.text == "\n".join(["任务 llm 失败 <a&b>"] * 3)
    (say,) = parsed(spoken("任务失败", 2)).findall("Say")
    assert (say.get("language"), say.get("loop")) == ("cmn-CN", "2")
    (say,) = parsed(spoken("job failed", 1)).findall("Say")
    assert say.get("language") == "en-US"


@pytest.mark.parametrize("text", ["<&>\"'" * 2000, "很长" * 3000, "\x00\x1b[31m\ud800x", "🔥" * 4000, ""])
def test_what_is_spoken_fits(text):
    made = spoken(text, 3)
    assert len(made) <= 4000
    assert len(parsed(made).findtext("Say") or "") <= 3000


def test_wrong_keys_break_the_channel_at_once(providers, send, account):
    answer = send(credentials={"account_sid": account.key, "auth_token": "wrong-token"})
    assert (answer.outcome, answer.code) == (Outcome.CHANNEL_BROKEN, "20003")
    assert outcomes(answer) == dict.fromkeys((ANN, BOB), (Outcome.CHANNEL_BROKEN, "20003"))
    assert len(providers.messages()) == 1
    assert send(credentials={"account_sid": "AC1", "auth_token": "x" * 8}).outcome is Outcome.CHANNEL_BROKEN


@pytest.mark.parametrize("kind", [Sms, Phone])
def test_a_sender_of_somebody_else(send, kind):
    assert send(kind, **{"from": "+14155550199"}).outcome is Outcome.CHANNEL_BROKEN


@pytest.mark.parametrize(
    ("status", "code", "outcome"),
    [
        (429, 20429, Outcome.THROTTLED), (400, 14107, Outcome.THROTTLED), (429, 63018, Outcome.THROTTLED),
        (400, 21611, Outcome.THROTTLED), (500, 20500, Outcome.AMBIGUOUS), (503, 20503, Outcome.TEMPORARY),
        (503, 21730, Outcome.TEMPORARY), (400, 21211, Outcome.REFUSED), (400, 21614, Outcome.REFUSED),
        (400, 21612, Outcome.REFUSED), (400, 21408, Outcome.REFUSED), (400, 21608, Outcome.REFUSED),
        (400, 21215, Outcome.REFUSED), (400, 21219, Outcome.REFUSED), (400, 21606, Outcome.CHANNEL_BROKEN),
        (401, 20003, Outcome.CHANNEL_BROKEN), (403, 20005, Outcome.CHANNEL_BROKEN),
        (400, 99999, Outcome.TEMPORARY), (418, None, Outcome.TEMPORARY), (500, None, Outcome.AMBIGUOUS),
        (503, 99999, Outcome.TEMPORARY), (503, None, Outcome.AMBIGUOUS), (504, None, Outcome.AMBIGUOUS),
        (429, None, Outcome.THROTTLED), (403, None, Outcome.CHANNEL_BROKEN), (502, None, Outcome.AMBIGUOUS),
        (302, None, Outcome.REFUSED), (410, None, Outcome.REFUSED),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", [Sms, Phone])
def test_what_an_answer_means(providers, send, kind, status, code, outcome):
    providers.script("twilio", error(status, code, headers={"Location": "http://127.0.0.1:1/"}))
    answer = send(kind, to=[ANN])
    assert answer.outcome is outcome
    assert answer.code == str(code or status)
    assert len(providers.messages()) == 1


def test_too_long_may_be_shortened(providers, send):
    providers.script("twilio", error(400, 21617))
    assert send(to=[ANN]).mend is Mend.SHORTEN


def test_the_wait_that_twilio_asks_for(providers, send):
    for status, code in ((429, 20429), (503, 20503), (503, 21730)):
        providers.script("twilio", error(status, code, headers={"Retry-After": "17"}))
        assert send(to=[ANN]).retry_after == timedelta(seconds=17)


@pytest.mark.parametrize(
    "body", ["", "null", "[1]", "oops", {}, {"sid": ""}, {"sid": 7}, {"sid": "../../x"}], ids=str
)
@pytest.mark.parametrize("kind", [Sms, Phone])
def test_what_cannot_be_read_is_no_success(providers, send, body, kind):
    providers.script("twilio", Scripted(201, body))
    assert send(kind, to=[ANN]).outcome is Outcome.TEMPORARY


def test_nobody_listens(send):
    answer = send(endpoint="http://127.0.0.1:9")
    assert outcomes(answer) == dict.fromkeys((ANN, BOB), (Outcome.TEMPORARY, "not_sent"))


def test_a_private_endpoint_is_refused(providers, send):
    answer = send(over=Network(timeout_s=1.0))
    assert outcomes(answer) == dict.fromkeys((ANN, BOB), (Outcome.REFUSED, "forbidden_target"))
    assert providers.messages() == []


def test_no_secret_is_kept(providers, send, account, caplog):
    caplog.set_level("DEBUG")
    providers.script("twilio", Scripted(400, {"code": 1, "message": f"{account.secret} {account.key}"}))
    for answer in (send(), send(Phone), send(endpoint="http://127.0.0.1:9")):
        assert account.secret not in f"{answer}{caplog.text}"
        assert account.key not in f"{answer}{caplog.text}"
    assert "node-b" not in caplog.text


def test_the_environment_is_not_read(providers, send, monkeypatch):
    monkeypatch.setenv("TWILIO_EDGE", "sydney")
    monkeypatch.setenv("TWILIO_REGION", "au1")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nowhere")
    assert send().outcome is Outcome.ACCEPTED


def receipts(config, network, *sent, kind=Sms, now=None):
    model = SmsConfig if kind is Sms else PhoneConfig
    return kind().receipts(sent, config(model), network, now or datetime.now(UTC))


def sent_now(to, message_id=None, ago_s=0.0, delivery_id="dlv_01"):
    return Sent(delivery_id, to, datetime.now(UTC) - timedelta(seconds=ago_s), message_id)


def test_what_became_of_texts(send, config, network, account):
    account.fates |= {BOB: Fate.FAILED}
    sent = [sent_now(one.to, one.message_id) for one in send().recipients]
    found = receipts(config, network, *sent)
    assert [(one.to, one.outcome, one.code) for one in found] == [
        (ANN, Outcome.DELIVERED, "delivered"), (BOB, Outcome.REFUSED, "30003"),
    ]  # fmt: skip
    assert [one.message_id for one in found] == [one.message_id for one in sent]


def test_what_a_carrier_has_only_taken_is_left_out(send, config, network, account):
    account.fates |= {ANN: Fate.PENDING}
    sent = [sent_now(one.to, one.message_id) for one in send(to=[ANN]).recipients]
    assert receipts(config, network, *sent) == ()


@pytest.mark.parametrize(
    ("fate", "outcome"),
    [
        (Fate.DELIVERED, Outcome.DELIVERED), (Fate.BUSY, Outcome.REFUSED), (Fate.NO_ANSWER, Outcome.REFUSED),
        (Fate.FAILED, Outcome.REFUSED), (Fate.PENDING, None),
    ],
)  # fmt: skip
def test_what_became_of_a_call(send, config, network, account, fate, outcome):
    account.fates[ANN] = fate
    answer = send(Phone)
    found = receipts(config, network, sent_now(ANN, answer.message_id), kind=Phone)
    assert [one.outcome for one in found] == ([outcome] if outcome else [])


def test_a_text_that_never_left_twilio_may_be_sent_again(providers, config, network):
    body = {"sid": "SM1", "status": "failed", "error_code": 30001}
    providers.script("twilio", Scripted(200, body))
    (found,) = receipts(config, network, sent_now(ANN, "SM1"))
    assert (found.outcome, found.code) == (Outcome.TEMPORARY, "30001")


@pytest.mark.parametrize("kind", [Sms, Phone])
def test_a_lost_answer_is_cleared_up(providers, send, config, network, account, kind):
    account.fates[ANN] = Fate.PENDING
    providers.script("twilio", Scripted(close="before"))
    assert send(kind, to=[ANN]).outcome is Outcome.AMBIGUOUS
    (taken,) = receipts(config, network, sent_now(ANN), kind=kind)
    assert taken.outcome is Outcome.ACCEPTED
    account.fates[ANN] = Fate.DELIVERED
    (found,) = receipts(config, network, sent_now(ANN), kind=kind)
    assert (found.outcome, found.message_id) == (Outcome.DELIVERED, taken.message_id)


@pytest.mark.parametrize("kind", [Sms, Phone])
def test_what_never_arrived_is_said_to_after_a_while(send, config, network, kind):
    lost = sent_now(ANN, ago_s=600)
    assert receipts(config, network, sent_now(ANN), kind=kind) == ()
    (found,) = receipts(config, network, lost, kind=kind)
    assert (found.outcome, found.code) == (Outcome.TEMPORARY, "never_arrived")


def test_another_text_is_not_taken_for_the_lost_one(send, config, network):
    send(to=[ANN])
    assert receipts(config, network, sent_now(ANN, delivery_id="dlv_02")) == ()


def test_two_calls_at_once_cannot_be_told_apart(send, config, network):
    send(Phone)
    send(Phone)
    assert receipts(config, network, sent_now(ANN), kind=Phone) == ()


@pytest.mark.parametrize(
    "body", ["", "oops", {"messages": 7}, {"messages": [1, {"date_created": "x"}]}, {"status": 7}]
)
def test_receipts_that_cannot_be_read(providers, config, network, body):
    providers.script(
        "twilio", Scripted(200, body), Scripted(200, body), Scripted(500), Scripted(close="before")
    )
    for sent in (sent_now(ANN, "SM1"), sent_now(ANN), sent_now(ANN, "SM1"), sent_now(ANN, "SM1")):
        assert receipts(config, network, sent) == ()
    assert receipts(config, network, sent_now(ANN, "../x")) == ()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"from": None}, "from"), ({"template_id": "1"}, "template_id"), ({"sign_name": "x"}, "sign_name"),
        ({"app_id": "1"}, "app_id"), ({"params": ["x"]}, "params"), ({"region": "ie1"}, "region"),
        ({"credentials": {"account_sid": "x"}}, "credentials"),
    ],
)  # fmt: skip
def test_what_is_refused_when_saved(config, changes, said):
    with pytest.raises(ValidationError) as refused:
        config(**changes)
    (fault,) = refused.value.errors()
    assert fault["loc"][0] == said


def test_a_call_comes_from_a_number(config):
    with pytest.raises(ValidationError, match=r"E\.164"):
        config(PhoneConfig, **{"from": "MG" + "0" * 32})


def test_no_number_has_a_quota_of_its_own():
    assert Twilio().limits("sms", datetime.now(UTC)) == ()
