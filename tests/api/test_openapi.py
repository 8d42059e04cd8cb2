"""Schemathesis over every route of the notifier: whatever it sends, the answer is one that is described."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance
from sqlalchemy.orm import Session

from channels.transport import Network
from notifier import oncalls, silencebook, usertemplates
from notifier.alerts import NewAlert, publish
from notifier.api.deps import Services
from notifier.api.router import mount
from notifier.auth import NewToken, Principal, Role, create_token
from notifier.channels import ChannelBody, Editing, wanted
from notifier.clock import utcnow
from notifier.directory import KnownJob, Standalone
from notifier.doorbell import Bell
from notifier.oncalls import OncallBody
from notifier.secretbox import SecretBox
from notifier.settings import Settings
from notifier.silencebook import SilenceBody
from notifier.storage import Store, make_engine
from notifier.usertemplates import TemplateBody

EXAMPLES = 10
CHANNEL: dict[str, Any] = {
    "name": "ding",
    "kind": "wecom",
    "config": {"webhook_url": "http://127.0.0.1:9/cgi-bin/webhook/send?key=CANARY"},
}
# That fields go together, that a name is known, and that no other parameter is, no schema says.
JUDGED_ELSEWHERE = [positive_data_acceptance, negative_data_rejection]
Case = schemathesis.Case[Any]
HOW = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


class OneJob(Standalone):
    def job(self, session: Session, job_id: str) -> KnownJob | None:  # noqa: ARG002
        return KnownJob(job_id, "llm", "default", "") if job_id == "job_1" else None


@dataclass
class Served:
    """The app, a token, what is in it, and how often it answered what."""

    app: FastAPI
    token: str
    known: dict[str, str]
    answers: Counter[int] = field(default_factory=Counter)

    def check(self, case: Case) -> None:
        answer = case.call(headers={"Authorization": f"Bearer {self.token}"})
        self.answers[answer.status_code] += 1
        case.validate_response(answer, excluded_checks=list(JUDGED_ELSEWHERE))
        assert "CANARY" not in answer.text

    def aim(self, case: Case) -> None:
        """At things that are there; nothing in a body that needs others."""
        case.path_parameters = {name: self.known[name] for name in case.path_parameters or {}}
        case.query = {name: value for name, value in (case.query or {}).items() if name == "item"}
        if isinstance(case.body, dict):
            for name in ("channels", "fallback", "scope", "job", "name", "kind"):
                case.body.pop(name, None)
            case.body |= (
                {"title": "t"} if case.operation.path.endswith("/alerts") and "{" not in case.path else {}
            )
            case.body |= {"config": CHANNEL["config"]} if "config" in case.body else {}


@pytest.fixture(scope="module")
def served(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("schemathesis")
    (folder / "faultcast.db").write_bytes(sqlite_template.read_bytes())
    engine = make_engine(f"sqlite:///{folder}/faultcast.db")
    # The proxy is nobody: nothing that is generated leaves this machine.
    network = Network(allow=(ip_network("127.0.0.1"),), proxy="http://127.0.0.1:9", timeout_s=1)
    services = Services(
        Store(engine),
        Settings(_env_file=None, data_dir=folder),
        SecretBox("a-secret-key-of-tests"),
        Bell(None),
        network,
        OneJob(),
    )
    app = FastAPI(title="Faultcast", version="1")
    mount(app, services)
    app.openapi_schema = _quickly_tried(app.openapi())
    yield _seeded(app, services)
    engine.dispose()


def _quickly_tried(schema: dict[str, Any]) -> dict[str, Any]:
    """With few Chinese characters in names: Hypothesis adds all 20,992 one by one for each that it makes."""
    few: dict[str, Any] = json.loads(json.dumps(schema).replace(r"\\u9fff", r"\\u4e0f"))
    assert few != schema
    return few


def _seeded(app: FastAPI, services: Services) -> Served:
    now, body = utcnow(), ChannelBody.model_validate(CHANNEL)
    want = wanted(body.kind, body.config, services.network)
    with services.store.write() as session:
        _, plaintext = create_token(session, NewToken("st", Role.ADMIN), now)
        other, _ = create_token(session, NewToken("other", Role.VIEWER), now)
        Editing(session, services.box, now).create(body, want, ("default", ""))
        told = NewAlert(pool="default", item="custom", severity="error", title="t", channels=("ding",))
        alert = publish(session, told, now)
        own = TemplateBody(text="{{ what }}")
        template = usertemplates.create(session, own, ("default", ""), now)
        admin = Principal("tok", "st", Role.ADMIN)
        matchers = [{"name": "item", "op": "=~", "value": "jobF.*"}]
        quiet = SilenceBody.model_validate({"matchers": matchers, "duration_s": 60})
        silence = silencebook.create(session, quiet, ("default", ""), admin, now)
        rota = {"name": "night", "turn": "daily", "start": "2026-11-30", "people": ["ding"]}
        oncalls.create(session, OncallBody.model_validate(rota), ("default", ""), now)
    known = {
        "name": "ding",
        "alert_id": alert.alert_id,
        "delivery_id": alert.delivery_ids[0],
        "token_id": other.id,
        "template_id": template.id,
        "silence_id": silence.id,
        "list_name": "night",
        "pool_id": "default",
        "job_id": "job_1",
    }
    return Served(app, plaintext, known)


ROUNDS = {
    "valid, at what is there": (GenerationMode.POSITIVE, True),
    "invalid, at what is there": (GenerationMode.NEGATIVE, True),
    "invalid, anywhere": (GenerationMode.NEGATIVE, False),
}


@pytest.mark.parametrize(("mode", "aimed"), ROUNDS.values(), ids=ROUNDS)
def test_every_answer_is_one_that_is_described(served: Served, mode: GenerationMode, aimed: bool) -> None:
    found: dict[str, str] = {}
    schema = schemathesis.openapi.from_asgi("/openapi.json", served.app)
    for operation in _ordered(schema):

        @HOW
        @given(case=operation.as_strategy(generation_mode=mode))
        def ask(case: Case) -> None:
            if aimed:
                served.aim(case)
            served.check(case)

        try:
            ask()
        except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001  all operations are looked at
            found[operation.label] = _words(error)
    assert not found
    assert served.answers[200] > 0
    assert not [status for status in served.answers if status >= 500]


def _ordered(schema: Any) -> list[Any]:
    """What deletes comes last."""
    operations = [result.ok() for result in schema.get_all_operations()]
    return sorted(operations, key=lambda operation: operation.method == "delete")


def _words(error: BaseException) -> str:
    inner = getattr(error, "exceptions", ())
    return " | ".join([str(error), *(_words(one) for one in inner)])[:2000]
