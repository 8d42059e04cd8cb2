"""No token in any place that people read, and no way into the house through a URL."""

import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import redis

from channels.standin import Scripted
from tests.cases.town import Town

if TYPE_CHECKING:
    from tests.delivery.conftest import House, Processes

CANARY = "CANARY123xyz"


def closed_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def everything(town: Town, path: Path) -> str:
    """Whatever a person, a log or a file can show of it."""
    pages = ["/channels", "/deliveries", "/alerts", "/deliveries/export?format=ndjson"]
    pages += [f"/deliveries/{row.id}" for row in town.house.rows()]
    shown = "".join(town.api.get(page).text for page in pages)
    return shown + "".join(file.read_bytes().decode("latin-1") for file in path.glob("*.db*"))


URLS = {
    "in the query": "http://127.0.0.1:{port}/robot/send?access_token=" + CANARY,
    "in the path": "http://127.0.0.1:{port}/hooks/" + CANARY + "/send",
}


@pytest.mark.parametrize("url", URLS.values(), ids=URLS)
@pytest.mark.parametrize("kind", ["dingtalk", "wecom", "feishu", "webhook"])
def test_a_token_is_shown_nowhere_when_its_host_is_away(
    town: Town, tmp_path: Path, capfd: pytest.CaptureFixture[str], kind: str, url: str
) -> None:
    """D-S21 and row 16: grafana pull 85687, alertmanager pull 1822, #1479, Kometa#3472."""
    field = "url" if kind == "webhook" else "webhook_url"
    town.channel("ops", kind, **{field: url.format(port=closed_port())})
    (one,) = town.publish("ops")
    town.settle(one, state="retrying")
    town.api.post("/channels/ops/test")
    printed = capfd.readouterr()
    assert CANARY not in everything(town, tmp_path) + printed.out + printed.err
    assert town.attempts(one)[0].provider_message == "connection refused"


def test_nor_in_the_alert_about_the_channel_that_failed(
    town: Town, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """D-S21, the same threads: "the error webhook" told it to everybody."""
    known = town.robot("dingtalk", token="known").url
    town.channel("ding", "dingtalk", webhook_url=known.replace("known", CANARY), secret=f"SEC{CANARY}")
    town.channel("hook")
    town.api.put(
        "/pools/default/alerts", json={"rules": [{"channels": ["hook"], "items": ["channelFailing"]}]}
    )
    (one,) = town.publish("ding")
    with town.working():
        town.house.told(one, state="failed")
        town.house.until(lambda: town.arrived("webhook"))
    printed = capfd.readouterr()
    told = "".join(str(message.document()) for message in town.arrived("webhook"))
    assert "ding" in told
    assert CANARY not in told + everything(town, tmp_path) + printed.out + printed.err


def test_nor_when_the_provider_repeats_it(town: Town, tmp_path: Path) -> None:
    """Row 16, thumper#33: the answer's text holds the request's URL."""
    town.channel("hook", url=town.robot("webhook", token=CANARY).url)
    town.providers.script("webhook", Scripted(500, f"no route for /webhook/{CANARY}"))
    (one,) = town.publish("hook")
    town.settle(one, state="retrying")
    assert CANARY not in everything(town, tmp_path)


def test_nor_in_redis_which_has_no_lock(
    house: "House", processes: "Processes", valkey_url: str, tmp_path: Path
) -> None:
    """Row 16: rq-dashboard shows a job's arguments and errors to everybody."""
    channel = house.channel(url=f"http://127.0.0.1:{closed_port()}/hooks/{CANARY}")
    (one,) = house.alert(channel, title="CANARY-title")
    processes.worker()
    house.told(one, state="retrying")
    with redis.Redis.from_url(valkey_url) as client:
        kept = b"".join(key + (client.dump(key) or b"") for key in client.keys("*"))
    logs = b"".join(path.read_bytes() for path in tmp_path.glob("worker-*.log"))
    assert kept
    assert b"CANARY" not in kept
    assert CANARY.encode() not in logs


FORBIDDEN = [
    "http://169.254.169.254/latest/meta-data",
    "http://[::ffff:a9fe:a9fe]/",
    "http://10.0.0.1/x",
    "http://192.168.1.1/x",
    "http://100.100.100.200/latest/meta-data",
    "http://[fd00::1]/",
    "http://0.0.0.0/",
    "http://167772161/",
    "http://0x0a.1/",
]


@pytest.mark.parametrize("url", FORBIDDEN)
@pytest.mark.parametrize("kind", ["webhook", "dingtalk"])
def test_an_address_inside_is_refused_when_the_channel_is_saved(town: Town, kind: str, url: str) -> None:
    """Row 17: new-api#1636, appwrite#11845, documenso#2901, codeframe#656, VibeNVR pull 204."""
    field = "url" if kind == "webhook" else "webhook_url"
    answer = town.api.post("/channels", json={"name": "x", "kind": kind, "config": {field: url}})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == f"config.{field}"


def test_a_redirect_into_the_house_is_not_followed_and_nothing_inside_is_shown(town: Town) -> None:
    """Row 17, the same threads: 302 to a private address."""
    inside = town.robot("webhook", token="inside")
    town.channel("hook")
    town.providers.script("webhook", Scripted(302, "inner words", {"Location": inside.url}))
    (one,) = town.publish("hook")
    town.settle(one, state="failed")
    assert [message.robot for message in town.providers.messages("webhook")] != ["inside"]
    assert len(town.providers.messages("webhook")) == 1


def test_an_address_that_became_private_is_refused_when_it_is_dialled(town: Town) -> None:
    """Row 17, the same threads: public when saved, private by the time it is used (rebinding)."""
    made = town.house.channel("hook", url=f"http://10.255.255.1:{closed_port()}/x")
    (one,) = town.house.alert(made)
    town.settle(one, state="failed")
    (attempt,) = town.attempts(one)
    assert (attempt.outcome, attempt.provider_code) == ("refused", "forbidden_target")


def test_when_every_channel_fails_nothing_says_that_it_was_told(town: Town) -> None:
    """Row 21: caronc/apprise-api#11, opensearch notifications#256: 200 "success" with nothing sent."""
    town.channel("hook")
    town.channel("mail", "email")
    town.providers.script("webhook", Scripted(410))
    town.providers.mail.recipients["ops@example.com"] = "550 5.1.1 no such user"
    ids = town.publish("hook", "mail")
    town.settle(*ids, state="failed")
    assert [town.delivery(one)["state"] for one in ids] == ["failed", "failed"]
    assert {town.delivery(one)["error"]["permanent"] for one in ids} == {True}
    assert town.arrived() == []
