"""Tencent Cloud through its own SDK: what is sent, what each answer means, and what becomes of a text."""

import re
from datetime import UTC, datetime, timedelta
from importlib import import_module

import pytest
from pydantic import ValidationError

from channels.base import Limit, Mend, Outcome, Sent
from channels.outcomes.tencent import TABLES
from channels.phone import Phone, PhoneConfig
from channels.sms import Sms, SmsConfig
from channels.standin import Scripted
from channels.standin.robots import Request
from channels.standin.telecom import Fate
from channels.standin.tencent import signature
from channels.telecom.tencent import Tencent
from channels.transport import Network

ANN, BOB = "+8613800001111", "+8613800002222"
LOST = [Scripted(close="before"), Scripted(close="middle")]
NOON = datetime(2026, 11, 29, 4, 0, tzinfo=UTC)
NIGHT = datetime(2026, 11, 29, 17, 30, tzinfo=UTC)  # 01:30 in China
MORNING = datetime(2026, 11, 30, 0, 0, tzinfo=UTC)  # 08:00 there


@pytest.fixture
def account(providers):
    return providers.account(
        "tencent", app_id="1400006666", signs=frozenset({"训练平台"}),
        templates={"1110": "任务{1}在{2}失败", "2220": "无变量"},
    )  # fmt: skip


@pytest.fixture
def config(account):
    def make(model=SmsConfig, **changes):
        given = {
            "provider": "tencent", "to": [ANN, BOB], "app_id": account.app_id, "template_id": "1110",
            "credentials": {"secret_id": account.key, "secret_key": account.secret},
            "params": ["{{ job.name }}", "{{ culprit }}"], "endpoint": account.endpoint,
        }  # fmt: skip
        given |= {"sign_name": "训练平台"} if model is SmsConfig else {}
        return model.model_validate({**given, **changes})

    return make


@pytest.fixture
def send(config, network, message):
    def run(kind=Sms, params=None, now=NOON, over=network, **changes):
        model = SmsConfig if kind is Sms else PhoneConfig
        told = message(params=params or {"1": "llm", "2": "node-b"})
        made = config(model, **changes)
        (part,) = kind().parts(told, made)
        return kind().send(part, made, over, now)

    return run


def outcomes(answer):
    return {one.to: (one.outcome, one.code) for one in answer.recipients}


def test_the_signature_of_the_handbook():
    """tencentcloud.com/document/product/382/40467, step 4."""
    body = rb'{"Limit": 1, "Filters": [{"Values": ["\u672a\u547d\u540d"], "Name": "instance-name"}]}'
    headers = {
        "content-type": "application/json; charset=utf-8", "host": "cvm.tencentcloudapi.com",
        "x-tc-timestamp": "1551113065",
    }  # fmt: skip
    made = signature(
        Request("POST", "/", {}, headers, body), "content-type;host", "2019-02-25", "cvm",
        "Gu5t9xGARNpq86cd98joQYCN3EXAMPLE",
    )  # fmt: skip
    assert made == "72e494ea809ad7a8c8f7a4507b9bddcbaa8e581f516e8da2f66e2c5a96525168"


def test_a_text_to_two(providers, send):
    answer = send()
    assert answer.outcome is Outcome.ACCEPTED
    assert outcomes(answer) == {ANN: (Outcome.ACCEPTED, "Ok"), BOB: (Outcome.ACCEPTED, "Ok")}
    assert len({one.message_id for one in answer.recipients}) == 2
    (arrived,) = providers.messages("sms", accepted=True)
    assert (arrived.text, arrived.called, arrived.id) == (
        "【训练平台】任务llm在node-b失败",
        (ANN, BOB),
        "dlv_01",
    )


def test_one_of_two_is_refused(send, account):
    account.blocked.add(BOB)
    answer = send()
    assert answer.outcome is Outcome.REFUSED
    assert outcomes(answer) == {
        ANN: (Outcome.ACCEPTED, "Ok"),
        BOB: (Outcome.REFUSED, "FailedOperation.PhoneNumberInBlacklist"),
    }


def test_only_those_who_are_left(providers, config, network, message):
    (part,) = Sms().parts(message(params={"1": "a", "2": "b"}), config())
    answer = Sms().send(part, config(), network, NOON, frozenset({BOB}))
    assert [one.to for one in answer.recipients] == [BOB]
    assert providers.messages("sms")[0].called == (BOB,)


def test_variables_hold_no_addresses_and_fit(providers, send):
    send(params={"1": "https://evil.example/x 10.0.0.1", "2": "很长" * 400})
    (arrived,) = providers.messages("sms", accepted=True)
    assert "10.0.0.1" not in arrived.text
    assert "http" not in arrived.text
    assert len(arrived.text) < 500
    assert "…" in arrived.text


def test_a_call(providers, send):
    answer = send(Phone, play_times=3)
    assert answer.outcome is Outcome.ACCEPTED
    assert answer.recipients[0].to == ANN
    assert answer.message_id == answer.recipients[0].message_id
    (arrived,) = providers.messages("phone", accepted=True)
    assert (arrived.text, arrived.called) == ("任务llm在node-b失败", (ANN,))
    assert arrived.body["PlayTimes"] == 3


def test_a_template_without_variables(providers, network, message, config):
    made = config(template_id="2220", params=[])
    (part,) = Sms().parts(message(), made)
    assert Sms().send(part, made, network, NOON).outcome is Outcome.ACCEPTED


@pytest.mark.parametrize("key", ["secret_key", "secret_id"])
def test_wrong_keys_break_the_channel(send, account, key):
    credentials = {"secret_id": account.key, "secret_key": account.secret, key: "AKIDwrong"}
    answer = send(credentials=credentials)
    assert answer.outcome is Outcome.CHANNEL_BROKEN
    assert answer.code.startswith("AuthFailure.")


@pytest.mark.parametrize(
    ("changes", "outcome", "code"),
    [
        ({"app_id": "1"}, Outcome.CHANNEL_BROKEN, "UnauthorizedOperation.SmsSdkAppIdVerifyFail"),
        ({"template_id": "9"}, Outcome.CHANNEL_BROKEN, "FailedOperation.TemplateUnapprovedOrNotExist"),
        ({"sign_name": "x"}, Outcome.CHANNEL_BROKEN, "FailedOperation.SignatureIncorrectOrUnapproved"),
        (
            {"template_id": "2220"}, Outcome.CHANNEL_BROKEN,
            "FailedOperation.TemplateParamSetNotMatchApprovedTemplate",
        ),
    ],
)  # fmt: skip
def test_a_channel_that_was_set_up_wrongly(send, changes, outcome, code):
    answer = send(**changes)
    assert (answer.outcome, answer.code) == (outcome, code)
    assert {one.outcome for one in answer.recipients} == {outcome}


def test_quotas_of_a_number(send):
    assert send(to=[ANN]).outcome is Outcome.ACCEPTED
    second = send(to=[ANN, BOB])
    assert outcomes(second)[ANN] == (Outcome.THROTTLED, "LimitExceeded.PhoneNumberThirtySecondLimit")
    assert outcomes(second)[BOB][0] is Outcome.ACCEPTED
    assert second.retry_after == timedelta(seconds=30)
    assert send(Phone).outcome is Outcome.ACCEPTED
    assert send(Phone).code == "LimitExceeded.DeliveryFrequencyLimit"


def error(code, **more):
    return Scripted(
        200, {"Response": {"Error": {"Code": code, "Message": "words"}, "RequestId": "R"}, **more}
    )


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        ("LimitExceeded.PhoneNumberDailyLimit", Outcome.THROTTLED),
        ("LimitExceeded.AppDailyLimit", Outcome.THROTTLED),
        ("RequestLimitExceeded", Outcome.THROTTLED),
        ("RequestLimitExceeded.SomethingNew", Outcome.THROTTLED),
        ("InternalError.Timeout", Outcome.TEMPORARY),
        ("InternalError.SomethingNew", Outcome.TEMPORARY),
        ("FailedOperation.AccessUpstreamTimeout", Outcome.TEMPORARY),
        ("FailedOperation.SomethingNew", Outcome.TEMPORARY),
        ("Nonsense", Outcome.TEMPORARY),
        ("InvalidParameterValue.IncorrectPhoneNumber", Outcome.REFUSED),
        ("InvalidParameterValue.ProhibitedUseUrlInTemplateParameter", Outcome.REFUSED),
        ("FailedOperation.InsufficientBalanceInSmsPackage", Outcome.CHANNEL_BROKEN),
        ("AuthFailure.SignatureExpire", Outcome.CHANNEL_BROKEN),
        ("AuthFailure.SomethingNew", Outcome.CHANNEL_BROKEN),
        ("UnauthorizedOperation.SomethingNew", Outcome.TEMPORARY),
        ("InvalidParameterValue.SomethingNew", Outcome.TEMPORARY),
    ],
)
def test_what_a_code_means(providers, send, code, outcome):
    providers.script("tencent", error(code))
    answer = send()
    assert (answer.outcome, answer.code) == (outcome, code)
    assert "words" in answer.message
    providers.script("tencent", error(code))
    assert send(Phone).outcome in (outcome, Outcome.TEMPORARY)


# Answers to managing signatures and templates, and to asking for receipts.
OTHERWISE = re.compile(
    r"FailedOperation\.(ForbidAdd|Missing|SignNumber|TemplateAlready|TemplateNumber)\w+"
    r"|InvalidParameterValue\.((Begin|End)TimeVerify|Image|Invalid|Limit|Marketing|MultiSms|Offset"
    r"|Qualification|Sign|TemplateWith)\w+"
)


@pytest.mark.parametrize(
    ("kind", "module"),
    [("sms", "tencentcloud.sms.v20210111.errorcodes"), ("phone", "tencentcloud.vms.v20200902.errorcodes")],
)
def test_every_code_that_the_sdk_names_stands_in_the_table(kind, module):
    named = [code for name, code in vars(import_module(module)).items() if name.isupper()]
    assert len(named) > 20
    assert [code for code in named if code not in TABLES[kind] and not OTHERWISE.fullmatch(code)] == []


def test_too_long_may_be_shortened(providers, send):
    providers.script("tencent", error("InvalidParameterValue.ContentLengthLimit"))
    answer = send()
    assert (answer.outcome, answer.mend) == (Outcome.REFUSED, Mend.SHORTEN)


@pytest.mark.parametrize(
    "body",
    [
        "", "null", "[]", "oops", {"Response": None}, {"Response": {}}, {"Response": {"Error": "x"}},
        {"Response": {"SendStatusSet": "x"}}, {"Response": {"SendStatusSet": [1, None]}},
        {"Response": {"SendStatusSet": [{"PhoneNumber": ANN, "Code": None}]}},
        {"Response": {"SendStatusSet": [{"PhoneNumber": ANN, "Code": "ok"}]}},
        {"Response": {"SendStatus": {"CallId": ""}}}, {"Response": {"SendStatus": 7}},
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("kind", [Sms, Phone])
def test_what_cannot_be_read_is_no_success(providers, send, body, kind):
    providers.script("tencent", Scripted(200, body))
    assert {one.outcome for one in send(kind).recipients} == {Outcome.TEMPORARY}


def test_a_number_that_the_answer_leaves_out(providers, send):
    status = {"PhoneNumber": ANN, "Code": "Ok", "SerialNo": "s1"}
    providers.script("tencent", Scripted(200, {"Response": {"SendStatusSet": [status]}}))
    assert outcomes(send()) == {ANN: (Outcome.ACCEPTED, "Ok"), BOB: (Outcome.TEMPORARY, "200")}


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (302, Outcome.REFUSED), (403, Outcome.CHANNEL_BROKEN), (429, Outcome.THROTTLED),
        (500, Outcome.AMBIGUOUS), (502, Outcome.AMBIGUOUS), (503, Outcome.AMBIGUOUS),
        (410, Outcome.REFUSED), (400, Outcome.TEMPORARY),
    ],
)  # fmt: skip
def test_what_a_relay_answers(providers, send, status, outcome):
    providers.script("tencent", Scripted(status, "<html>", {"Location": "http://127.0.0.1:1/"}))
    assert send().outcome is outcome
    assert len(providers.messages("tencent")) == 1


def test_retry_after_wins(providers, send):
    for script in (
        Scripted(503, {"Response": {"Error": {"Code": "ServiceUnavailable"}}}, {"Retry-After": "40"}),
        Scripted(200, {"Response": {"Error": {"Code": "RequestLimitExceeded"}}}, {"Retry-After": "40"}),
        Scripted(429, "<html>", {"Retry-After": "40"}),
    ):
        providers.script("tencent", script)
        assert send().retry_after == timedelta(seconds=40)


@pytest.mark.parametrize("script", LOST, ids=["before", "middle"])
@pytest.mark.parametrize("kind", [Sms, Phone])
def test_a_lost_answer_is_sent_once_and_ambiguous(providers, send, script, kind):
    providers.script("tencent", script)
    answer = send(kind)
    assert answer.outcome is Outcome.AMBIGUOUS
    assert {one.outcome for one in answer.recipients} == {Outcome.AMBIGUOUS}
    assert len(providers.messages(accepted=True)) == 1


def test_an_answer_that_comes_too_late(providers, send):
    providers.script("tencent", Scripted(delay_s=2.5))
    over = Network(allow=None, timeout_s=1.0)
    assert send(over=over).outcome is Outcome.AMBIGUOUS


def test_a_private_endpoint_is_refused(providers, send):
    answer = send(over=Network(timeout_s=1.0))
    assert (answer.outcome, answer.code) == (Outcome.REFUSED, "forbidden_target")
    assert providers.messages() == []


def test_nobody_listens(send):
    answer = send(endpoint="http://127.0.0.1:9")
    assert (answer.outcome, answer.code) == (Outcome.TEMPORARY, "not_sent")


def test_no_secret_is_kept(providers, send, account, caplog):
    caplog.set_level("DEBUG")
    providers.script("tencent", error("InternalError", Echo=account.secret))
    for answer in (send(), send(Phone), send(endpoint="http://127.0.0.1:9")):
        assert account.secret not in f"{answer}{caplog.text}"
        assert account.key not in answer.request
    assert "任务" not in caplog.text


def receipts(config, network, *sent, now=None):
    return Sms().receipts(sent, config(), network, now or datetime.now(UTC))


def sent_now(to, message_id=None):
    return Sent("dlv_01", to, datetime.now(UTC), message_id)


def test_what_became_of_texts(send, config, network, account):
    account.fates |= {BOB: Fate.FAILED}
    answer = send()
    sent = [sent_now(one.to, one.message_id) for one in answer.recipients]
    found = receipts(config, network, *sent)
    assert [(one.to, one.outcome, one.code) for one in found] == [
        (ANN, Outcome.DELIVERED, "DELIVRD"), (BOB, Outcome.REFUSED, "MK:0001"),
    ]  # fmt: skip
    assert [one.message_id for one in found] == [one.message_id for one in sent]


def test_what_no_carrier_has_reported_on_is_left_out(send, config, network, account):
    account.fates |= {ANN: Fate.PENDING, BOB: Fate.PENDING}
    sent = [sent_now(one.to, one.message_id) for one in send().recipients]
    assert receipts(config, network, *sent) == ()


def test_a_lost_answer_is_cleared_up(providers, send, config, network):
    providers.script("tencent", Scripted(close="before"))
    send()
    (ann, bob) = receipts(config, network, sent_now(ANN), sent_now(BOB))
    assert (ann.outcome, bob.outcome) == (Outcome.DELIVERED, Outcome.DELIVERED)
    assert ann.message_id


def test_receipts_that_cannot_be_had(providers, config, network):
    providers.script("tencent", Scripted(500), Scripted(200, "oops"), error("FailedOperation"))
    for _ in range(3):
        assert receipts(config, network, sent_now(ANN, "s1")) == ()
    assert Phone().receipts([sent_now(ANN, "c1")], config(PhoneConfig), network, NOON) == ()
    assert Phone().receipt_times(config(PhoneConfig)) == ()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"app_id": None}, "app_id"),
        ({"template_id": None}, "template_id"),
        ({"sign_name": None}, "sign_name"),
        ({"params": {"a": "b"}}, "params"),
        ({"from": "+1"}, "from"),
        ({"to": [ANN, "+4915112345678"]}, "to"),
        ({"credentials": {"secret_id": "x"}}, "credentials"),
    ],
)
def test_what_is_refused_when_saved(config, changes, said):
    with pytest.raises(ValidationError) as refused:
        config(**changes)
    (fault,) = refused.value.errors()
    assert fault["loc"][0] == said


def test_numbers_abroad_need_no_sign(config):
    assert config(to=["+4915112345678"], sign_name=None).sign_name is None


def test_what_a_number_may_be_sent():
    texts, calls = Tencent().limits("sms", NOON), Tencent().limits("phone", NOON)
    assert [(one.count, one.per.total_seconds()) for one in texts] == [(1, 30), (10, 86400)]
    assert [(one.count, one.per.total_seconds()) for one in calls] == [(1, 30), (2, 600), (5, 86400)]
    assert Tencent().limits("phone", NIGHT)[-1] == Limit(1, timedelta(hours=10), MORNING)


@pytest.mark.parametrize(
    ("before", "is_night"),
    [
        (timedelta(hours=10, seconds=1), False), (timedelta(hours=10), True), (timedelta(hours=8), True),
        (timedelta(seconds=1), True), (timedelta(0), False),
    ],
)  # fmt: skip
def test_at_eight_in_china_a_number_may_be_called_again(before, is_night):
    """One call a night, whenever it was; not one in ten hours."""
    found = [limit.until for limit in Tencent().limits("phone", MORNING - before) if limit.until]
    assert found == ([MORNING] if is_night else [])
