"""Baidu through its own SDK, against a stand-in that checks what Baidu checks."""

from datetime import UTC, datetime, timedelta
from functools import partial

import httpx
import pytest

from channels.base import Outcome
from channels.outcomes.baidu import CODES
from channels.standin import Scripted, StandIn
from channels.standin.baidu import signature
from channels.standin.robots import Request
from channels.telecom.base import SMS
from channels.telecom.config import provider
from tests.channels.telecom import ALICE, BOB, CAROL, TEXT, Line, of_each
from tests.channels.test_aliyun import CANARY, HOSTILE


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
    return providers.account("baidu", signs=frozenset({"sms-sign1"}), templates={"sms-tmpl-1": TEXT})


@pytest.fixture
def keys(account):
    return {"access_key_id": account.key, "access_key_secret": account.secret}


@pytest.fixture
def sms(providers, network, account, keys):
    return Line(
        providers, network, SMS, account, to=[ALICE, CAROL], credentials=keys,
        template_id="sms-tmpl-1", sign_name="sms-sign1", params={"job": "", "cause": ""},
    )  # fmt: skip


def test_the_signature_of_baidus_own_example():
    # cloud.baidu.com/doc/Reference/s/njwvz1yfu, with its default of signed headers
    headers = {
        "host": "bj.bcebos.com",
        "date": "Mon, 27 Apr 2015 16:23:49 +0800",
        "content-type": "text/plain",
        "content-length": "8",
        "content-md5": "NFzcPqhviddjRNnSOGo4rw==",
        "x-bce-date": "2015-04-27T08:23:49Z",
        "authorization": f"bce-auth-v1/{'a' * 32}/2015-04-27T08:23:49Z/1800//{'0' * 64}",
    }
    query = {"partNumber": "9", "uploadId": "a44cc9bab11cbd156984767aad637851"}
    request = Request("PUT", "/v1/test/myfolder/readme.txt", query, headers, b"")
    assert signature(request, "b" * 32) == "d74a04362e6a848f5b39b15421cb449427f419c95a480fd6b8cf9fc783e2999e"


def test_a_text_is_accepted_for_every_number_and_people_read_it(sms):
    answer = sms.send()
    assert (answer.outcome, answer.http_status, answer.code) == (Outcome.ACCEPTED, 200, "1000")
    assert of_each(answer) == {ALICE: ("accepted", "1000"), CAROL: ("accepted", "1000")}
    assert len({one.message_id for one in answer.recipients}) == 2
    (read,) = sms.providers.wait(1, "sms")
    assert (read.text, read.called) == ("【sms-sign1】任务llm故障：GPU 掉卡，请处理。", (ALICE, CAROL))
    assert read.body["mobile"] == "13800001111,+85291234567"
    assert read.id == "dlv_01"


def test_each_number_has_an_outcome_of_its_own(sms, account):
    account.blocked.add(CAROL)
    answer = sms.send()
    assert answer.outcome is Outcome.REFUSED
    assert of_each(answer) == {ALICE: ("accepted", "1000"), CAROL: ("refused", "4643")}


def test_a_number_that_the_answer_leaves_out_may_have_been_told(sms):
    data = [{"code": "1000", "mobile": "13800001111", "messageId": "m"}, "?", {"code": "1000"}]
    body = {"requestId": "R", "code": "1000", "message": "成功", "data": data}
    sms.providers.script("baidu", Scripted(200, body))
    answer = sms.send()
    assert [one.outcome for one in answer.recipients] == [Outcome.ACCEPTED, Outcome.AMBIGUOUS]


def test_only_those_who_are_left_are_sent_to(sms):
    assert list(of_each(sms.send(only=frozenset({CAROL})))) == [CAROL]


@pytest.mark.parametrize("value", HOSTILE.values(), ids=HOSTILE)
def test_any_value_gets_through(sms, value):
    assert sms.send({"job": value, "cause": f"(a)[b]（c）{value}"}).outcome is Outcome.ACCEPTED


@pytest.mark.parametrize(
    ("changes", "code", "field"),
    [
        ({"sign_name": "sms-sign2"}, "6006", "sign_name"),
        ({"template_id": "sms-tmpl-2"}, "4602", "template_id"),
    ],
)
def test_what_the_owner_can_mend_breaks_the_channel_and_names_the_field(sms, changes, code, field):
    answer = sms.send(**changes)
    assert (answer.outcome, answer.code) == (Outcome.CHANNEL_BROKEN, code)
    assert field in answer.message


@pytest.mark.parametrize(
    ("credentials", "code"),
    [
        ({"access_key_secret": "wrong-secret"}, "SignatureDoesNotMatch"),
        ({"access_key_id": "nobody"}, "InvalidAccessKeyId"),
    ],
)
def test_wrong_keys_break_the_channel(sms, keys, credentials, code):
    answer = sms.send(credentials={**keys, **credentials})
    assert (answer.outcome, answer.code, answer.http_status) == (Outcome.CHANNEL_BROKEN, code, 403)


def test_no_money(sms, account):
    account.balance = 0
    assert sms.send().outcome is Outcome.CHANNEL_BROKEN


def test_the_fourth_text_of_a_minute_is_throttled(sms):
    answers = [sms.send(to=[BOB]) for _ in range(4)]
    assert [one.outcome for one in answers] == [*[Outcome.ACCEPTED] * 3, Outcome.THROTTLED]
    assert answers[-1].retry_after == timedelta(minutes=20)


def test_what_a_number_may_be_sent():
    limits = provider("baidu").limits(SMS, datetime.now(UTC))
    assert [(one.count, one.per.total_seconds()) for one in limits] == [(3, 60), (10, 3600), (50, 86400)]


@pytest.mark.parametrize("code", CODES)
def test_every_row_of_the_tables(sms, code):
    verdict = CODES[code]
    row = {"code": code, "message": "words", "mobile": "13800001111", "messageId": "m"}
    sms.providers.script(
        "baidu", Scripted(200, {"requestId": "R", "code": "1000", "message": "ok", "data": [row]})
    )
    answer = sms.send(only=frozenset({ALICE}))
    assert (answer.outcome, answer.code, answer.mend) == (verdict.outcome, code, verdict.mend)
    if code == "1000":
        return
    sms.providers.script("baidu", Scripted(200, {"requestId": "R", "code": code, "message": "words"}))
    answer = sms.send()
    assert {one.outcome for one in answer.recipients} == {verdict.outcome} == {answer.outcome}
    assert answer.retry_after == verdict.retry_after


@pytest.mark.parametrize(
    "body",
    [
        "", "<html>", "[]", "{}", '{"code":null}', '{"code":1000}', '{"code":true}',
        '{"code":"1000"}', '{"code":"1000","data":{}}', '{"code":"1000","data":[]}',
    ],
)  # fmt: skip
def test_anything_but_the_providers_word_for_a_number_is_no_success(sms, body):
    sms.providers.script("baidu", Scripted(200, body))
    answer = sms.send()
    is_taken = '"1000"' in body  # though no number is named
    wanted = Outcome.AMBIGUOUS if is_taken else Outcome.TEMPORARY
    assert {one.outcome for one in answer.recipients} == {wanted} == {answer.outcome}


def test_a_code_that_is_not_in_the_table_is_temporary(sms):
    sms.providers.script("baidu", Scripted(200, {"code": "9999"}))
    assert sms.send().outcome is Outcome.TEMPORARY


def test_retry_after_wins(sms):
    for script in (
        Scripted(500, {"code": "InternalError"}, {"Retry-After": "40"}),
        Scripted(429, "", {"Retry-After": "40"}),
    ):
        sms.providers.script("baidu", script)
        assert sms.send().retry_after == timedelta(seconds=40)


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (500, Outcome.AMBIGUOUS), (502, Outcome.AMBIGUOUS), (410, Outcome.REFUSED), (429, Outcome.THROTTLED),
        (403, Outcome.CHANNEL_BROKEN), (302, Outcome.REFUSED),
    ],
)  # fmt: skip
def test_what_http_alone_says(sms, status, outcome):
    sms.providers.script("baidu", Scripted(status, "oops", {"Location": "http://127.0.0.1:9/"}))
    answer = sms.send()
    assert (answer.outcome, answer.http_status) == (outcome, status)
    assert len(sms.providers.messages()) == 1, "the SDK's own retries are off"


def test_success_in_the_body_of_a_500_is_none(sms):
    row = {"code": "1000", "mobile": "13800001111", "messageId": "m"}
    sms.providers.script(
        "baidu", Scripted(500, {"requestId": "R", "code": "1000", "message": "", "data": [row]})
    )
    assert sms.send(to=[ALICE]).outcome is Outcome.AMBIGUOUS


@pytest.mark.parametrize(
    "script", [Scripted(close="before"), Scripted(close="middle"), Scripted(delay_s=2.0)]
)
def test_a_lost_answer_is_ambiguous_and_the_request_was_made_once(sms, script):
    sms.providers.script("baidu", script)
    answer = sms.send()
    assert {one.outcome for one in answer.recipients} == {Outcome.AMBIGUOUS} == {answer.outcome}
    assert len(sms.providers.messages("sms")) == 1


def test_nobody_there(sms):
    answer = sms.send(endpoint="http://127.0.0.1:9")
    assert (answer.outcome, answer.code) == (Outcome.TEMPORARY, "not_sent")


def test_a_private_endpoint_is_not_dialled(sms, network):
    sms.network = type(network)(allow=())
    assert sms.send().code == "forbidden_target"
    assert not sms.providers.messages()


def test_it_has_no_receipts(sms):
    assert sms.adapter.receipt_times(sms.config()) == ()
    assert sms.asked(sms.sent(ALICE, "m")) == ()


def test_no_secret_is_kept_or_logged(sms, providers, caplog):
    caplog.set_level("DEBUG")
    secret = providers.account(
        "baidu", f"ID{CANARY}", secret=CANARY, signs=frozenset({"s"}), templates={"T": "x"}
    )
    keys = {"access_key_id": secret.key, "access_key_secret": CANARY}
    send = partial(sms.send, credentials=keys, sign_name="s", template_id="T")
    answers = [send()]
    for script in (
        Scripted(400, {"requestId": "R", "code": "X", "message": f"your key {CANARY}"}),
        Scripted(502, f"<p>{CANARY}"),
        Scripted(close="before"),
    ):
        providers.script("baidu", script)
        answers.append(send())
    answers.append(send(credentials={**keys, "access_key_secret": f"other{CANARY}"}))
    assert CANARY not in str(answers)
    assert CANARY not in caplog.text
    assert "sign_key" not in caplog.text


def test_the_stand_in_takes_no_request_that_was_changed(sms):
    sms.send()
    (sent,) = sms.providers.messages("sms")
    headers = {name: sent.headers[name] for name in ("x-bce-date", "content-type", "authorization", "host")}
    url = f"{sms.account.endpoint}/api/v3/sendSms"

    def again(**changes):
        return httpx.post(url, json=sent.body, headers={**headers, **changes}).json()["code"]

    assert again(**{"x-bce-date": "2026-01-01T00:00:00Z"}) == "SignatureDoesNotMatch"
    assert again(authorization="") == "InvalidHTTPAuthHeader"
