"""The main job, end to end: a real PyTorch job breaks five times, recovers, and people are told of it all."""

import json
import os
import random
import signal
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from channels.standin import StandIn
from master.cli.client import Client
from master.cli.errors import REFUSED, CommandError
from master.demo.faults import FAULTS
from master.demo.story import OTHER_LANGUAGE, Lived, Story
from master.demo.town import DemoFailure, Town, town, wait_for
from master.inject import Fault, Ground, Wish
from notifier.clock import utcnow
from notifier.outbox import UNASKED

START_WITHIN_S = 90
FAULT_WITHIN_S = 90
FINISH_WITHIN_S = 120
TELL_WITHIN_S = 30
RECEIPT_WITHIN_S = 60
JOB_NAME = "demo-train"
KEYWORD = "训练"
FINAL = ("Succeeded", "Failed", "Stopped")
SUCCESS = ("delivered", "merged")
# Texts and calls are kept for what they are made for.
DEAR = {"team-sms": ["nodeFT"], "team-phone": ["jobHang"]}
SIGN, TEMPLATE, CALLER = "百舸训练", "SMS_demo", "+15005550006"
TRAIN = Path(__file__).with_name("train.py")


def run_demo(*, keep: bool, seed: int | None) -> int:
    """Runs the demo; 0 only if every promised alert was delivered and training finished."""
    if find_spec("torch") is None:
        raise CommandError("the demo trains with PyTorch: pip install torch, or run `make demo`", REFUSED)
    language = "en" if os.environ.get("FAULTCAST_LANGUAGE") == "en" else "zh"
    story = Story(language)
    demo = None
    code = 1
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # whatever it started ends with it
    try:
        with StandIn() as providers, town(providers.smtp_url, language, keep=keep) as place:
            demo = Demo(place, providers, story)
            demo.run(random.Random(seed))  # noqa: S311  an order that can be repeated, no secret
            code = 0
            if keep:
                story.tell("done", f"{place.url}  {place.data_dir}  (kill {place.pid})")
    except (DemoFailure, CommandError) as failure:
        story.tell("bad", str(failure))
    except KeyboardInterrupt:
        story.tell("bad", "interrupted")
    print(json.dumps(demo.balance.document() if demo else Balance().document()))
    return code


@dataclass
class Balance:
    """The last line: what was promised, and what the providers really have."""

    faults: tuple[Lived, ...] = ()
    promised: int = 0
    delivered: int = 0
    trained: bool = False

    def document(self) -> dict[str, Any]:
        rows = [one.row() for one in self.faults]
        return {
            "faults": rows, "promised": self.promised, "delivered": self.delivered, "trained": self.trained,
        }  # fmt: skip


class Demo:
    """One job in the town, its channels, and the faults it lives through."""

    def __init__(self, place: Town, providers: StandIn, story: Story) -> None:
        self.balance = Balance()
        self._place = place
        self._client: Client = place.client
        self._providers = providers
        self._story = story
        self._channels: dict[str, str] = {}
        self._job = ""

    def run(self, chance: random.Random) -> None:
        """Raises DemoFailure for the first promise that is not kept."""
        self._story.tell("start", OTHER_LANGUAGE[self._story.language])
        self._story.tell("start", f"{self._place.url}  token: {self._place.data_dir}/admin.token")
        self._make_channels()
        self._submit()
        ground = Ground(self._client, self._job)
        self._await_steps(START_WITHIN_S)
        for fault in chance.sample(FAULTS, len(FAULTS)):
            self._rest(steps=chance.randrange(15, 40))
            lived = self._live_through(ground, fault, index=chance.randrange(2))
            self.balance.faults += (lived,)
        self._finish()
        self._story.time_lines(self.balance.faults)
        self._check_messages()

    def _make_channels(self) -> None:
        """The three robots, each with what makes it hard: signatures and a keyword; and a mailbox."""
        signed = "SEC" + os.urandom(16).hex()
        ding = self._providers.robot("dingtalk", secret=signed, keyword=KEYWORD)
        feishu = self._providers.robot("feishu", secret=signed)
        wecom = self._providers.robot("wecom")
        mobiles = ["13800001111"]
        configs: dict[str, tuple[str, dict[str, Any]]] = {
            "team-dingtalk": (
                "dingtalk",
                {"webhook_url": ding.url, "secret": signed, "keyword": KEYWORD, "at_mobiles": mobiles},
            ),
            "team-feishu": ("feishu", {"webhook_url": feishu.url, "secret": signed, "at_all": True}),
            "team-wecom": ("wecom", {"webhook_url": wecom.url, "mentioned_user_ids": ["zhang"]}),
            "team-mail": ("email", {"to": ["oncall@example.com"]}),
            "team-sms": ("sms", self._texts()),
            "team-phone": ("phone", self._calls()),
        }
        for name, (kind, config) in configs.items():
            self._client.post("/channels", {"name": name, "scope": "default", "kind": kind, "config": config})
            self._channels[name] = kind
        self._story.tell("start", "DingTalk · Feishu · WeCom · SMTP · SMS (Aliyun) · phone (Twilio)")

    def _texts(self) -> dict[str, Any]:
        templates = {TEMPLATE: "训练告警：${title}"}
        account = self._providers.account("aliyun", signs=frozenset({SIGN}), templates=templates)
        return {
            "provider": "aliyun", "to": ["+8613800001111"], "endpoint": account.endpoint,
            "credentials": {"access_key_id": account.key, "access_key_secret": account.secret},
            "template_id": TEMPLATE, "sign_name": SIGN, "params": {"title": "{{ title }}"},
        }  # fmt: skip

    def _calls(self) -> dict[str, Any]:
        account = self._providers.account("twilio", "AC" + os.urandom(16).hex(), senders=frozenset({CALLER}))
        return {
            "provider": "twilio", "to": ["+8613800001111"], "from": CALLER, "endpoint": account.endpoint,
            "credentials": {"account_sid": account.key, "auth_token": account.secret},
        }  # fmt: skip

    def _submit(self) -> None:
        checkpoints = self._place.data_dir / "checkpoints"
        body = {
            "name": JOB_NAME,
            "command": f"exec {sys.executable} {TRAIN}",
            "jobFramework": "PyTorchJob",
            "jobSpec": {
                "replicas": 2,
                "envs": [{"name": "DEMO_CHECKPOINTS", "value": str(checkpoints)}],
            },
            "faultTolerance": True,
            "faultToleranceArgs": "--enable-hang-detection=true --max-restarts=10",
            "alertConfig": {
                "rules": [
                    {"channels": [name for name in self._channels if name not in DEAR]},
                    *({"channels": [name], "items": items} for name, items in DEAR.items()),
                ]
            },
        }
        self._job = self._client.post("/jobs", body)["id"]
        self._story.tell("train", f"{JOB_NAME}: 2 pods, gloo, CPU ({self._job})")

    def _await_steps(self, within_s: float, *, beyond: int = 0) -> None:
        def steps() -> bool:
            step = self._step()
            return step is not None and step > beyond

        wait_for(steps, within_s, f"training does not get beyond step {beyond}")
        self._story.tell("train", f"step {self._step()}")

    def _step(self) -> int | None:
        step: int | None = self._client.get(f"/jobs/{self._job}")["step"]
        return step

    def _rest(self, *, steps: int) -> None:
        """Some healthy training between two faults."""
        self._await_steps(FAULT_WITHIN_S, beyond=(self._step() or 0) + steps)

    def _live_through(self, ground: Ground, fault: Fault, *, index: int) -> Lived:
        tell, words = self._story.tell, fault.words[self._story.language]
        known = {event["id"] for event in self._events()}
        injected_at = utcnow()
        fault.strike(ground, Wish(rank=index))
        tell("fault", f"{words}  (pod {index})")
        new = wait_for(
            lambda: [event for event in self._events() if event["id"] not in known],
            FAULT_WITHIN_S, f"{fault.name}: nothing was detected",
        )  # fmt: skip
        event = new[0]
        if event["fault_class"] != fault.becomes:
            raise DemoFailure(f"{fault.name} was called {event['fault_class']}, not {fault.becomes}")
        names = " · ".join(dict.fromkeys((event["fault_class"], event["cause"])))  # a hang is called so twice
        tell("found", f"{names} · {event['reason']}")
        tell("decided", f"{event['decision']['action']}: {event['decision']['why']}")
        first = wait_for(
            lambda: self._first_message(event["id"]), TELL_WITHIN_S, f"{fault.name}: nobody was told"
        )
        tell("told", f"{first['channel']}: {first['item']} ({first['state']})")
        event = wait_for(
            lambda: self._recovered(event["id"]), FAULT_WITHIN_S, f"{fault.name}: no steps afterwards"
        )
        lost = event["steps_lost"]
        tell("again", f"step {self._step()}, {event['downtime_s']:.1f} s, {lost} steps lost")
        if len(self._events()) != len(known) + 1:
            raise DemoFailure(f"{fault.name} became more than one fault event")
        return Lived(
            fault.name, fault.words, injected_at, event, first["delivered_at"], event["recovered_at"]
        )

    def _events(self) -> list[dict[str, Any]]:
        return list(self._client.get(f"/jobs/{self._job}/events", {"limit": 100})["items"])

    def _deliveries(self, **filters: str) -> list[dict[str, Any]]:
        return list(self._client.pages("/deliveries", {"job": self._job, **filters}, 0))

    def _first_message(self, event_id: str) -> dict[str, Any] | None:
        told = [one for one in self._deliveries(event=event_id) if one["delivered_at"]]
        return min(told, key=lambda one: one["delivered_at"], default=None)

    def _recovered(self, event_id: str) -> dict[str, Any] | None:
        return next((one for one in self._events() if one["id"] == event_id and one["recovered_at"]), None)

    def _finish(self) -> None:
        def status() -> str:
            return str(self._client.get(f"/jobs/{self._job}")["status"])

        wait_for(lambda: status() in FINAL, FINISH_WITHIN_S, "training did not finish")
        self.balance.trained = status() == "Succeeded"
        if not self.balance.trained:
            raise DemoFailure(f"the job ended as {status()}")
        self._story.tell("done", f"{JOB_NAME}: {status()}")

    def _check_messages(self) -> None:
        """The log's claims against what the providers have: the promise is kept when both agree."""
        waiting = ("pending", "sending", "retrying", "accepted")  # a text or a call has its receipt coming
        wait_for(
            lambda: not any(one["state"] in waiting for one in self._deliveries()),
            RECEIPT_WITHIN_S, "messages are still on their way",
        )  # fmt: skip
        log = [one for one in self._deliveries() if one["trigger"] != UNASKED]
        self._story.delivery_log(log)
        promised = [one for one in log if one["alert_id"]]
        self.balance.promised = len(promised)
        self.balance.delivered = sum(one["state"] in SUCCESS for one in promised)
        robots = len(self._channels) - len(DEAR)
        expected = robots * (2 + 2 * len(self.balance.faults))  # begun, finished; fault, recovery
        for items in DEAR.values():
            theirs = {one["event_id"] for one in log if not {one["item"], *one["items"]}.isdisjoint(items)}
            expected += 2 * len(theirs)
        if self.balance.promised < expected:
            raise DemoFailure(f"{expected} alerts were due, the log has {self.balance.promised}")
        if self.balance.delivered < self.balance.promised:
            raise DemoFailure(f"{self.balance.promised - self.balance.delivered} alerts were not delivered")
        for name, kind in self._channels.items():
            sent = sum(one["channel"] == name and one["state"] == "delivered" for one in log)
            arrived = len(self._providers.messages(kind, accepted=True))
            if arrived < sent:
                raise DemoFailure(f"{name}: the log says {sent} messages, {kind} has {arrived}")
        self._story.tell("done", f"{self.balance.delivered}/{self.balance.promised}")
