"""Our own kinds as the contract sees them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from channels.base import ChannelConfig, Outcome
from channels.contract import CANARY, MailSubject, Subject
from channels.registry import ADAPTERS

WHSEC = "whsec_" + "a2tr" * 8


def json_bytes(payload: Mapping[str, Any]) -> int:
    return len(json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode())


def wecom_bytes(payload: Mapping[str, Any]) -> int:
    return len(payload[payload["msgtype"]]["content"].encode())


DINGTALK = Subject(
    ADAPTERS["dingtalk"],
    address="webhook_url",
    played="dingtalk",
    success={"errcode": 0, "errmsg": "ok"},
    secret="SECtest-secret",
    canaries={"secret": CANARY},
    limit=20_000,
    size=json_bytes,
    mentioned={"at_mobiles": ["13800001111"], "at_user_ids": ["manager1"], "at_all": True},
    called=frozenset({"13800001111", "manager1", "all"}),
)
WECOM = Subject(
    ADAPTERS["wecom"],
    address="webhook_url",
    played="wecom",
    success={"errcode": 0, "errmsg": "ok"},
    limit=4096,
    size=wecom_bytes,
    mentioned={"mentioned_user_ids": ["zhangsan", "@all"], "mentioned_mobiles": ["13800001111"]},
    called=frozenset({"zhangsan", "@all", "13800001111"}),
)
FEISHU = Subject(
    ADAPTERS["feishu"],
    address="webhook_url",
    played="feishu",
    success={"code": 0, "msg": "success"},
    secret="feishu-secret",
    canaries={"secret": CANARY},
    limit=20_000,
    size=json_bytes,
    mentioned={"at_open_ids": ["ou_abc"], "at_all": True},
    called=frozenset({"ou_abc", "all"}),
)
WEBHOOK = Subject(
    ADAPTERS["webhook"],
    played="webhook",
    secret=WHSEC,
    canaries={"headers": {"Authorization": f"Bearer {CANARY}"}},
)
EMAIL = MailSubject(ADAPTERS["email"], config={"to": ["oncall@example.com"]})


@dataclass(frozen=True)
class AppriseSubject(Subject):
    """Apprise, by Gotify's URL: `http://host/path` of the played receiver is `gotify://host/path/token`."""

    def leading_to(self, url: str, **more: Any) -> ChannelConfig:
        return super().leading_to(f"gotify{url.removeprefix('http')}/token-of-gotify", **more)


APPRISE = AppriseSubject(ADAPTERS["apprise"], success={"id": 1}, told=Outcome.ACCEPTED)
