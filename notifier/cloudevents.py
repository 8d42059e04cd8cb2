"""CloudEvents 1.0 as alerts, of the JSON format and the HTTP binding. Pure.

https://github.com/cloudevents/spec/tree/v1.0.2/cloudevents.

An event is known again by `source` and `id`: the same one twice is one alert.
"""

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from pydantic import TypeAdapter, ValidationError

from notifier.alertdocuments import AlertBody
from notifier.documents import GivenMoment
from notifier.lasting import FIRING, RESOLVED
from notifier.problems import Problem, invalid, of_validation
from notifier.severities import severity_named
from notifier.wording import clip

STRUCTURED = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"
BINARY = "ce-"
OURS = "io.faultcast."
ALERT = f"{OURS}alert"  # data is the body of POST /alerts
MAX_SOURCE, MAX_NAME, MAX_ATTRIBUTE = 200, 128, 1024
_REQUIRED = ("id", "source", "specversion", "type")
_OPTIONAL = ("subject", "time", "datacontenttype", "dataschema")
_DATA = ("data", "data_base64")
_TITLES = ("title", "summary", "name")
_TEXTS = ("text", "description", "message", "detail")
_NAME = re.compile("[a-z0-9]+")
_MOMENT: TypeAdapter[Any] = TypeAdapter(GivenMoment)
SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "A CloudEvent in structured mode; in binary mode its attributes are `ce-` headers.",
    "required": list(_REQUIRED),
    "properties": {
        "specversion": {"type": "string", "enum": ["1.0"]},
        **{name: {"type": "string", "minLength": 1} for name in ("id", "source", "type", "subject")},
        "time": {"type": "string", "format": "date-time"},
        "data": {"description": f"of type `{ALERT}`, or with no other fields, the body of an alert"},
    },
}


@dataclass(frozen=True)
class Event:
    """Attributes by name, all of them text, and the data."""

    attributes: Mapping[str, str]
    data: Any = None

    @property
    def type(self) -> str:
        return self.attributes["type"]

    @property
    def key(self) -> str:
        """Of the event, wherever it comes from: an `Idempotency-Key`."""
        named = json.dumps([self.attributes["source"], self.attributes["id"]])
        return "ce-" + hashlib.sha256(named.encode()).hexdigest()

    @property
    def extensions(self) -> dict[str, str]:
        known = {*_REQUIRED, *_OPTIONAL}
        return {name: value for name, value in self.attributes.items() if name not in known}


def structured(document: Any) -> Event:
    """Raises a problem that names the attribute."""
    if not isinstance(document, dict):
        raise Problem(422, detail="a CloudEvent is an object: {…}")
    attributes: dict[str, str] = {}
    for name, value in document.items():
        if name in _DATA or value is None:
            continue
        if not isinstance(value, str | bool | int) or (
            name in (*_REQUIRED, *_OPTIONAL) and not isinstance(value, str)
        ):
            raise invalid(name, "give a text")
        attributes[name] = value if isinstance(value, str) else json.dumps(value)
    if all(document.get(name) is not None for name in _DATA):
        raise invalid("data_base64", "leave it out, or data: an event has one of them")
    return _checked(Event(attributes, _data(document)))


def binary(headers: Mapping[str, str], data: Any) -> Event:
    """`headers` with names in lower case."""
    attributes = {
        name.removeprefix(BINARY): unquote(value)
        for name, value in headers.items()
        if name.startswith(BINARY)
    }
    for name, value in attributes.items():
        if "\0" in value:
            raise invalid(f"{BINARY}{name}", "must not contain a NUL character")
    return _checked(Event(attributes, data))


def alert_of(event: Event) -> dict[str, Any]:
    """The body of POST /alerts that says the same.

    Raises:
        Problem: the data are to be such a body, and are none.
    """
    data, source = event.data, clip(event.attributes["source"], MAX_SOURCE)
    if event.type == ALERT or _is_body(data):
        if not isinstance(data, dict):
            raise invalid("data", "give an object: the body of an alert")
        given = {"source": source, **data}
        if event.type != ALERT and given.get("status") != RESOLVED:
            given.setdefault("title", _title(event))
    elif event.type.startswith(OURS) and isinstance(data, dict):
        given = _of_another(data, source)
    else:
        given = _of_stranger(event, source)
    try:
        return AlertBody.model_validate(given).model_dump(mode="json", exclude_unset=True)
    except ValidationError as error:
        raise of_validation(error, under="data", model=AlertBody) from None


def _checked(event: Event) -> Event:
    faults = [
        (name, "is missing")
        for name in _REQUIRED
        if not event.attributes.get(name, "").strip() and name != "specversion"
    ]
    faults += [
        (clip(name, MAX_NAME), "no such name: an attribute's has lower-case letters and digits only")
        for name in event.attributes
        if not _NAME.fullmatch(name)
    ]
    if event.attributes.get("specversion") != "1.0":
        faults.append(("specversion", 'give "1.0"'))
    if "time" in event.attributes:
        try:
            _MOMENT.validate_python(event.attributes["time"])
        except ValidationError:
            faults.append(("time", "give a time such as 2026-11-29T08:00:00Z"))
    if faults:
        raise Problem(422, errors=faults)
    return event


def _data(document: Mapping[str, Any]) -> Any:
    encoded = document.get("data_base64")
    if encoded is None:
        return document.get("data")
    try:
        raw = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise invalid("data_base64", "give base64") from None
    try:
        return raw.decode().replace("\0", "")
    except UnicodeDecodeError:
        return f"({len(raw)} bytes)"


def _is_body(data: Any) -> bool:
    """Whether somebody meant the body of an alert, whatever the event's type: it says what, or to whom."""
    return (
        isinstance(data, dict)
        and not data.keys().isdisjoint(("title", "channels"))
        and data.keys() <= AlertBody.model_fields.keys()
    )


def _of_another(data: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Another Faultcast's message (CONTRACT 4): its alert's id joins the alarm and its end."""
    given = {name: data[name] for name in ("severity", "status", "title", "text") if name in data}
    labels = data.get("labels")
    labels = {str(name): str(value) for name, value in labels.items()} if isinstance(labels, dict) else {}
    job = data.get("job")
    about = {"item": data.get("item"), "job": job.get("name") if isinstance(job, dict) else None}
    labels |= {name: str(value) for name, value in about.items() if value}
    key = {"dedup_key": str(data["id"])[:500]} if data.get("id") else {}
    return {"source": source, "labels": labels, **given, **key}


def _of_stranger(event: Event, source: str) -> dict[str, Any]:
    data = event.data if isinstance(event.data, dict) else {}
    key = _text(data, ("dedup_key",)) or event.extensions.get("dedupkey")
    status = data.get("status")
    return {
        "source": source,
        "title": _text(data, _TITLES) or _title(event),
        "text": _text(data, _TEXTS) or _shown(event.data),
        "severity": severity_named(data.get("severity") or event.extensions.get("severity")).value,
        "labels": _labels(event),
        **({"dedup_key": key[:500]} if key else {}),
        **({"status": status} if key and status in (FIRING, RESOLVED) else {}),
    }


def _title(event: Event) -> str:
    return ": ".join(part for part in (event.type, event.attributes.get("subject", "")) if part)


def _labels(event: Event) -> dict[str, str]:
    named = {name: event.attributes[name] for name in ("type", "subject") if event.attributes.get(name)}
    return {
        clip(name, MAX_NAME): clip(value, MAX_ATTRIBUTE) for name, value in (named | event.extensions).items()
    }


def _text(data: Mapping[str, Any], names: tuple[str, ...]) -> str:
    found = (data.get(name) for name in names)
    return next((value.strip() for value in found if isinstance(value, str) and value.strip()), "")


def _shown(data: Any) -> str:
    if data is None or isinstance(data, str):
        return data or ""
    return json.dumps(data, ensure_ascii=False, indent=1)
