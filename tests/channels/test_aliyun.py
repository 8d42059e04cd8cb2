"""Aliyun through its own SDK, against a stand-in that checks what Aliyun checks."""

import json
import re
from datetime import UTC, datetime, timedelta
from functools import partial

import httpx
import pytest

from channels.answers import Verdict
from channels.base import Mend, Outcome
from channels.outcomes import aliyun as codes
from channels.standin import Fate, Scripted, StandIn
from channels.standin.aliyun import signature
from channels.standin.robots import Request
from channels.telecom.aliyun import _prepared
from channels.telecom.base import PHONE, SMS
from channels.telecom.config import provider
from tests.channels.telecom import ALICE, BOB, CAROL, TEXT, Line, of_each

CANARY = "CANARYq7Zk-secretTOKEN"


@pytest.fixture(scope="module")
def running():
    with StandIn() as standin:
        yield standin


@pytest.fixture
def providers(running):
    running.clear()
    return running


@pytest.fixture
def account(providers):
    return providers.account(
        "aliyun",
        signs=frozenset({"故障通"}),
        templates={"SMS_1": TEXT, "TTS_1": TEXT},
        senders=frozenset({"0571"}),
    )


@pytest.fixture
def keys(account):
    return {"access_key_id": account.key, "access_key_secret": account.secret}


@pytest.fixture
def sms(providers, network, account, keys):
    params = {"job": "{{ job }}", "cause": "{{ cause }}"}
    return Line(
        providers, network, SMS, account, to=[ALICE, BOB], credentials=keys,
        template_id="SMS_1", sign_name="故障通", params=params,
    )  # fmt: skip


@pytest.fixture
def phone(providers, network, account, keys):
    return Line(
        providers, network, PHONE, account, to=[ALICE, BOB], credentials=keys,
        template_id="TTS_1", params={"job": "", "cause": ""},
    )  # fmt: skip


def scripted(line, *answers, **more):
    line.providers.script("aliyun", *answers)
    return line.send(**more)


def test_the_signature_of_aliyuns_own_example():
    # help.aliyun.com/zh/sdk/product-overview/v3-request-structure-and-signature
    headers = {
        "host": "ecs.cn-shanghai.aliyuncs.com",
        "x-acs-action": "RunInstances",
        "x-acs-content-sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "x-acs-date": "2023-10-26T10:22:32Z",
        "x-acs-signature-nonce": "3156853299f313e23d1673dc12e1703d",
        "x-acs-version": "2014-05-26",
    }
    query = {"ImageId": "win2019_1809_x64_dtc_zh-cn_40G_alibase_20230811.vhd", "RegionId": "cn-shanghai"}
    request = Request("POST", "/", query, headers, b"")
    made = signature(request, ";".join(headers), "YourAccessKeySecret")
    assert made == "06563a9e1b43f5dfe96b81484da74bceab24a1d853912eee15083a6f0f3283c0"


def test_a_text_is_accepted_for_every_number_and_people_read_it(sms):
    answer = sms.send()
    assert (answer.outcome, answer.http_status, answer.code) == (Outcome.ACCEPTED, 200, "OK")
    assert of_each(answer) == {ALICE: ("accepted", "OK"), BOB: ("accepted", "OK")}
    assert answer.message_id
    (read,) = sms.providers.wait(1, "sms")
    assert (read.text, read.called) == ("【故障通】任务llm故障：GPU 掉卡，请处理。", (ALICE, BOB))
    assert read.id == "dlv_01"


def test_only_those_who_are_left_are_sent_to(sms):
    assert list(of_each(sms.send(only=frozenset({BOB})))) == [BOB]
    (read,) = sms.providers.wait(1, "sms")
    assert read.called == (BOB,)


def test_numbers_abroad_go_without_the_plus(sms):
    sms.send(to=[CAROL])
    (read,) = sms.providers.wait(1, "sms")
    assert (read.query["PhoneNumbers"], read.called) == ("85291234567", (CAROL,))


HOSTILE = {
    "empty": "", "blank": " \n ", "url": "http://a.cn/x y", "address": "10.0.0.1:8080", "mail": "a@b.cn",
    "sign": "【签名】", "long": "x" * 500, "emoji": "🔥" * 100, "json": '"}{\\', "control": "\x00\u202e",
}  # fmt: skip


@pytest.mark.parametrize("value", HOSTILE.values(), ids=HOSTILE)
def test_any_value_gets_through(sms, value):
    assert sms.send({"job": value, "cause": value}).outcome is Outcome.ACCEPTED
    (read,) = sms.providers.wait(1, "sms")
    assert all(len(one) <= 35 for one in json.loads(read.query["TemplateParam"]).values())


def test_a_call_goes_to_the_first_who_is_left_and_says_the_template(phone):
    answer = phone.send(play_times=2, called_show_number="0571")
    assert of_each(answer) == {ALICE: ("accepted", "OK")}
    assert of_each(phone.send(only=frozenset({BOB}))) == {BOB: ("accepted", "OK")}
    heard = phone.providers.wait(2, "phone")
    assert [(one.called, one.text) for one in heard] == [
        ((ALICE,), "任务llm故障：GPU 掉卡，请处理。"), ((BOB,), "任务llm故障：GPU 掉卡，请处理。")
    ]  # fmt: skip
    assert (heard[0].query["PlayTimes"], heard[0].query["CalledShowNumber"]) == ("2", "0571")
    assert len(heard[0].query["OutId"]) <= 15


def test_the_variables_of_a_call_are_shortened_together(phone):
    assert phone.send({"job": "x" * 300, "cause": "好" * 300}).outcome is Outcome.ACCEPTED


WRONG = {
    "sign": ({"sign_name": "别的"}, "isv.SMS_SIGNATURE_ILLEGAL", "sign_name"),
    "template": ({"template_id": "SMS_2"}, "isv.SMS_TEMPLATE_ILLEGAL", "template_id"),
}


@pytest.mark.parametrize(("changes", "code", "field"), WRONG.values(), ids=WRONG)
def test_what_the_owner_can_mend_breaks_the_channel_and_names_the_field(sms, changes, code, field):
    answer = sms.send(**changes)
    assert (answer.outcome, answer.code) == (Outcome.CHANNEL_BROKEN, code)
    assert field in answer.message


@pytest.mark.parametrize(
    ("credentials", "code"),
    [
        ({"access_key_secret": "wrong-secret"}, "SignatureDoesNotMatch"),
        ({"access_key_id": "nobody"}, "InvalidAccessKeyId.NotFound"),
    ],
)
def test_wrong_keys_break_the_channel(sms, keys, credentials, code):
    answer = sms.send(credentials={**keys, **credentials})
    assert (answer.outcome, answer.code) == (Outcome.CHANNEL_BROKEN, code)


def test_variables_that_the_template_misses(sms):
    answer = sms.send({"job": "llm"})
    assert (answer.outcome, answer.code) == (Outcome.CHANNEL_BROKEN, "isv.TEMPLATE_MISSING_PARAMETERS")


def test_no_money(sms, account):
    account.balance = 1
    answer = sms.send()
    assert (answer.outcome, answer.code) == (Outcome.CHANNEL_BROKEN, "isv.AMOUNT_NOT_ENOUGH")


def test_a_blocked_number_is_refused(sms, account):
    account.blocked.add(ALICE)
    assert of_each(sms.send(only=frozenset({ALICE}))) == {ALICE: ("refused", "isv.BLACK_KEY_CONTROL_LIMIT")}


def test_the_51st_text_of_a_day_is_throttled(sms):
    outcomes = [sms.send(to=[ALICE]).outcome for _ in range(50)]
    answer = sms.send(to=[ALICE])
    assert set(outcomes) == {Outcome.ACCEPTED}
    assert (answer.outcome, answer.retry_after) == (Outcome.THROTTLED, timedelta(hours=2))


def test_a_second_call_within_a_minute_is_throttled(phone):
    phone.send()
    answer = phone.send()
    assert (answer.outcome, answer.retry_after) == (Outcome.THROTTLED, timedelta(minutes=1))


def test_what_a_number_may_be_sent():
    now = datetime.now(UTC)
    limits = {kind: provider("aliyun").limits(kind, now) for kind in (SMS, PHONE)}
    told = {kind: [(one.count, one.per.total_seconds()) for one in found] for kind, found in limits.items()}
    assert told == {"sms": [(50, 86400)], "phone": [(1, 60), (5, 3600), (20, 86400)]}


ROWS = [(kind, code, verdict) for kind, table in codes.TABLES.items() for code, verdict in table.items()]


@pytest.mark.parametrize(("kind", "code", "verdict"), ROWS, ids=[f"{kind}-{code}" for kind, code, _ in ROWS])
def test_every_row_of_the_tables(sms, phone, kind, code, verdict: Verdict):
    line = sms if kind == SMS else phone
    body = {"Code": code, "Message": "words", "RequestId": "R", "BizId": "B^1", "CallId": "C^1"}
    answer = scripted(line, Scripted(200, body))
    assert (answer.outcome, answer.code, answer.mend) == (verdict.outcome, code, verdict.mend)
    assert {one.outcome for one in answer.recipients} == {verdict.outcome}
    assert answer.retry_after == verdict.retry_after


@pytest.mark.parametrize(
    ("said", "wait"),
    [
        ("触发分钟级流控Permits:1", timedelta(minutes=1)),
        ("触发小时级流控Permits:5", timedelta(minutes=20)),
        ("触发天级流控Permits:10", timedelta(hours=2)),
        ("触发流控", timedelta(minutes=20)),
    ],
)
def test_flow_control_says_how_long_only_in_words(sms, said, wait):
    answer = scripted(sms, Scripted(200, {"Code": "isv.BUSINESS_LIMIT_CONTROL", "Message": said}))
    assert (answer.outcome, answer.retry_after) == (Outcome.THROTTLED, wait)


@pytest.mark.parametrize(
    "body",
    [
        "",
        "<html>",
        "[]",
        "{}",
        '{"Code":null}',
        '{"Code":0}',
        '{"Code":true}',
        '{"Code":"OK"}',
    ],
)
def test_anything_but_the_providers_word_and_an_id_is_no_success(sms, body):
    is_taken = body == '{"Code":"OK"}'  # and nothing to ask after it by
    wanted = Outcome.AMBIGUOUS if is_taken else Outcome.TEMPORARY
    assert scripted(sms, Scripted(200, body)).outcome is wanted


def test_a_code_that_is_not_in_the_table_is_temporary(sms):
    for status in (200, 400, 503):
        assert scripted(sms, Scripted(status, {"Code": "ok"})).outcome is Outcome.TEMPORARY


def test_retry_after_wins(sms):
    for script in (
        Scripted(503, {"Code": "ServiceUnavailable"}, {"Retry-After": "40"}),
        Scripted(400, {"Code": "Throttling.User"}, {"Retry-After": "40"}),
        Scripted(429, "", {"Retry-After": "40"}),
    ):
        assert scripted(sms, script).retry_after == timedelta(seconds=40)


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (500, Outcome.AMBIGUOUS), (502, Outcome.AMBIGUOUS), (503, Outcome.AMBIGUOUS),
        (504, Outcome.AMBIGUOUS), (400, Outcome.TEMPORARY), (410, Outcome.REFUSED),
        (429, Outcome.THROTTLED), (403, Outcome.CHANNEL_BROKEN), (302, Outcome.REFUSED),
    ],
)  # fmt: skip
def test_what_http_alone_says(sms, status, outcome):
    answer = scripted(sms, Scripted(status, "oops", {"Location": "http://127.0.0.1:9/"}))
    assert (answer.outcome, answer.http_status) == (outcome, status)


def test_success_in_the_body_of_a_500_is_none(sms):
    body = {"Code": "OK", "BizId": "B^1"}
    assert scripted(sms, Scripted(500, body)).outcome is Outcome.AMBIGUOUS


def test_too_long_asks_for_less(sms):
    answer = scripted(sms, Scripted(200, {"Code": "isv.PARAM_LENGTH_LIMIT"}))
    assert (answer.outcome, answer.mend) == (Outcome.REFUSED, Mend.SHORTEN)


@pytest.mark.parametrize(
    "script", [Scripted(close="before"), Scripted(close="middle"), Scripted(delay_s=2.0)]
)
def test_a_lost_answer_is_ambiguous_and_the_request_was_made_once(sms, script):
    answer = scripted(sms, script)
    assert {one.outcome for one in answer.recipients} == {Outcome.AMBIGUOUS} == {answer.outcome}
    assert len(sms.providers.messages("sms")) == 1, "the SDK's own retries are off"


def test_a_server_in_trouble_is_asked_once(sms):
    scripted(sms, Scripted(503, {"Code": "ServiceUnavailable"}))
    assert len(sms.providers.messages()) == 1


@pytest.mark.parametrize(
    ("changes", "host"),
    [
        ({"endpoint": None}, "dysmsapi.aliyuncs.com"),
        ({"endpoint": None, "region": "ap-southeast-1"}, "dysmsapi.ap-southeast-1.aliyuncs.com"),
        ({"endpoint": "https://sms.corp:8443", "region": "ap-southeast-1"}, "sms.corp:8443"),
    ],
)
def test_which_host_is_asked(sms, changes, host):
    client, _, runtime = _prepared(SMS, "send_sms", {}, sms.config(**changes), sms.network)
    assert (client._endpoint, client._protocol) == (host, "https")
    assert (runtime.autoretry, client._retry_options) == (False, None)


def test_nobody_there(sms):
    answer = sms.send(endpoint="http://127.0.0.1:9")
    assert (answer.outcome, answer.code) == (Outcome.TEMPORARY, "not_sent")
    assert {one.outcome for one in answer.recipients} == {Outcome.TEMPORARY}


def test_a_private_endpoint_is_not_dialled(sms, network):
    sms.network = type(network)(allow=())
    answer = sms.send()
    assert (answer.outcome, answer.code) == (Outcome.REFUSED, "forbidden_target")
    assert not sms.providers.messages()


def test_no_secret_is_kept_or_logged(sms, providers, caplog):
    caplog.set_level("DEBUG")
    secret = providers.account(
        "aliyun", f"ID{CANARY}", secret=CANARY, signs=frozenset({"s"}), templates={"T": "x"}
    )
    keys = {"access_key_id": secret.key, "access_key_secret": CANARY}
    send = partial(sms.send, credentials=keys, sign_name="s", template_id="T")
    answers = [send()]
    for script in (
        Scripted(400, {"Code": "X", "Message": f"your key {CANARY}"}), Scripted(502, f"<p>{CANARY}"),
        Scripted(close="before"),
    ):  # fmt: skip
        providers.script("aliyun", script)
        answers.append(send())
    answers.append(send(credentials={**keys, "access_key_secret": f"other{CANARY}"}))
    assert CANARY not in str(answers)
    assert CANARY not in caplog.text


def test_receipts_of_texts(sms, account):
    account.fates = {ALICE: Fate.DELIVERED, BOB: Fate.FAILED}
    message_id = sms.send().message_id
    told = sms.asked(sms.sent(ALICE, message_id), sms.sent(BOB, message_id))
    assert [(one.to, one.outcome, one.code) for one in told] == [
        (ALICE, Outcome.DELIVERED, "DELIVERED"), (BOB, Outcome.REFUSED, "MK:0001")
    ]  # fmt: skip


def test_no_receipt_yet(sms, account):
    account.fates = {ALICE: Fate.PENDING}
    assert sms.asked(sms.sent(ALICE, sms.send(to=[ALICE]).message_id)) == ()


def test_a_lost_answer_is_cleared_up_by_asking(sms, account):
    scripted(sms, Scripted(close="before"), to=[ALICE])
    (told,) = sms.asked(sms.sent(ALICE, None))
    assert told.outcome is Outcome.DELIVERED
    account.fates = {ALICE: Fate.PENDING}
    (told,) = sms.asked(sms.sent(ALICE, None))
    assert told.outcome is Outcome.ACCEPTED


def test_what_never_arrived_may_be_sent_again_but_not_at_once(sms):
    lost = sms.sent(ALICE, None)
    assert sms.asked(lost) == ()
    (told,) = sms.asked(lost, later=timedelta(minutes=6))
    assert told.outcome is Outcome.TEMPORARY


def test_a_text_sent_at_midnight_is_looked_for_on_both_days(sms):
    at = datetime(2026, 11, 29, 15, 59, 50, tzinfo=UTC)  # ten seconds to midnight in China
    sms.asked(sms.sent(ALICE, "B^1", at))
    assert [one.query["SendDate"] for one in sms.providers.messages("query")] == ["20261129", "20261130"]


@pytest.mark.parametrize(
    ("fate", "outcome", "code"),
    [
        (Fate.DELIVERED, Outcome.DELIVERED, "200000"),
        (Fate.NO_ANSWER, Outcome.REFUSED, "200003"),
        (Fate.BUSY, Outcome.REFUSED, "200002"),
        (Fate.FAILED, Outcome.REFUSED, "200010"),
    ],
)
def test_receipts_of_calls(phone, account, fate, outcome, code):
    account.fates = {ALICE: fate}
    (told,) = phone.asked(phone.sent(ALICE, phone.send().message_id))
    assert (told.outcome, told.code) == (outcome, code)


def test_a_call_under_way_or_without_an_id_has_no_receipt(phone, account):
    account.fates = {ALICE: Fate.PENDING}
    assert phone.asked(phone.sent(ALICE, phone.send().message_id)) == ()
    assert phone.asked(phone.sent(ALICE, None), later=timedelta(hours=1)) == ()


def test_receipts_never_raise(sms):
    sms.providers.script(
        "aliyun", Scripted(close="before"), Scripted(500, "x"), Scripted(200, '{"Code":"OK"}')
    )
    for _ in range(3):
        assert sms.asked(sms.sent(ALICE, "B^1")) == ()
    assert sms.asked(sms.sent(ALICE, "B^1"), endpoint="http://127.0.0.1:9") == ()


@pytest.mark.parametrize("state", ["[]", "{", "null", '{"state":{}}', '{"state":"200"}', '""'])
def test_a_receipt_that_cannot_be_read_says_nothing(phone, state):
    phone.providers.script("aliyun", Scripted(200, {"Code": "OK", "Data": state}))
    assert phone.asked(phone.sent(ALICE, "C^1")) == ()


def test_the_stand_in_takes_no_request_twice_and_none_that_was_changed(sms):
    sms.send()
    (sent,) = sms.providers.messages("sms")
    unsigned = ("connection", "content-length")  # what a gateway on the way may change
    assert not set(unsigned) & set(re.split("[;,=]", sent.headers["authorization"]))
    headers = {name: value for name, value in sent.headers.items() if name not in unsigned}

    def again(**changes):
        answer = httpx.post(sms.account.endpoint, params={**sent.query, **changes}, headers=headers)
        return answer.json()["Code"]

    assert again() == "SignatureNonceUsed"
    assert again(PhoneNumbers="13900002222") == "SignatureDoesNotMatch"
    del headers["x-acs-date"]
    assert again() == "SignatureDoesNotMatch"
