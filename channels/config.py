"""A channel's config between the API, the database and the adapter: what is secret, masked, kept."""

from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import urlsplit

from pydantic import SecretStr, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from channels.base import ChannelConfig
from channels.redaction import HIDDEN, in_header, in_url

C = TypeVar("C", bound=ChannelConfig)
WITH_HOST = frozenset({"http", "https", "smtp", "smtps"})
SAVING = {"saving": True}  # a validator's context when a channel is saved, not when it is read again
URL_FIELDS = frozenset({"webhook_url", "url", "smtp_url"})


def split(config: ChannelConfig) -> tuple[dict[str, Any], dict[str, Any]]:
    """(plain, secret): both ready for JSON, and together all that `join` needs."""
    plain: dict[str, Any] = {}
    secret: dict[str, Any] = {}
    for name, value in _fields(config).items():
        if _is_secret(value):
            secret[name] = _revealed(value)
        else:
            plain[name] = value
    return plain, secret


def join(model: type[C], plain: Mapping[str, Any], secret: Mapping[str, Any]) -> C:
    """The config that `split` took apart."""
    return model.model_validate({**plain, **secret})


def masked(config: ChannelConfig) -> dict[str, Any]:
    """The config as it may be shown: URLs as `scheme://host/***`, other secrets as `***`."""
    return {
        name: _masked(name, value) if _is_secret(value) else value for name, value in _fields(config).items()
    }


def differing(one: ChannelConfig, other: ChannelConfig) -> list[str]:
    """The fields in which two configs differ, secret ones too; their values are not told."""
    first, second = ({**plain, **secret} for plain, secret in (split(one), split(other)))
    return [name for name in {**first, **second} if first.get(name) != second.get(name)]


def merge(model: type[C], incoming: Mapping[str, Any], stored: ChannelConfig | None) -> C:
    """The config that `incoming` asks for; where it repeats a mask, what is stored is kept.

    Raises:
        pydantic.ValidationError: it is not valid, or a mask stands where nothing fitting is stored.
    """
    shown = masked(stored) if stored is not None else {}
    kept = split(stored)[1] if stored is not None else {}
    merged: dict[str, Any] = {}
    faults: list[InitErrorDetails] = []
    moved = stored is not None and _moved(incoming, stored)
    for name, value in incoming.items():
        if isinstance(value, Mapping):
            before = kept.get(name)
            # What was entrusted to one address is not sent to another one unseen.
            pairs = before if isinstance(before, Mapping) and not moved else {}
            merged[name] = {key: _kept(item, HIDDEN, pairs.get(key)) for key, item in value.items()}
            faults += [_fault(name, str(key)) for key, item in merged[name].items() if item == HIDDEN]
        else:
            merged[name] = _kept(value, shown.get(name), kept.get(name))
            if isinstance(value, str) and _looks_masked(name, merged[name]):
                faults.append(_fault(name))
    if faults:
        raise ValidationError.from_exception_data(model.__name__, faults, hide_input=True)
    return model.model_validate(merged, context=SAVING)


def _moved(incoming: Mapping[str, Any], stored: ChannelConfig) -> bool:
    """Whether messages, and all that is sent along with them, would go to another address than before."""
    before = {**split(stored)[0], **split(stored)[1]}
    given = {name: incoming[name] for name in ("url", "endpoint") if isinstance(incoming.get(name), str)}
    masks = masked(stored)
    return any(
        value != masks.get(name) and _place(value) != _place(str(before.get(name) or ""))
        for name, value in given.items()
    )


def _place(address: str) -> str:
    return mask_url(address) if "://" in address else address.lower()


def secrets_of(config: ChannelConfig) -> tuple[str, ...]:
    """Every piece of text that must not be seen, for `redact`."""
    found: list[str] = []
    for name, value in split(config)[1].items():
        if name in URL_FIELDS:
            found.extend(in_url(value))
        elif isinstance(value, Mapping):
            found.extend(piece for item in value.values() for piece in in_header(item))
        else:
            found.append(str(value))
    return tuple(found)


@lru_cache(maxsize=1024)
def mask_url(url: str) -> str:
    """`https://host:port/***`: enough to know it again, nothing to use it with.

    In an Apprise URL the token may stand where the host should.
    """
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return HIDDEN
    if parts.scheme not in WITH_HOST:
        return f"{parts.scheme}://{HIDDEN}" if parts.scheme else HIDDEN
    return f"{parts.scheme}://{host}/{HIDDEN}" if host else HIDDEN


def _fields(config: ChannelConfig) -> dict[str, Any]:
    """By the names of the API; unset optional fields are left out."""
    named = {(info.alias or name): getattr(config, name) for name, info in type(config).model_fields.items()}
    return {name: _plain(value) for name, value in named.items() if value is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, StrEnum):
        return value.value
    return list(value) if isinstance(value, tuple) else value


def _is_secret(value: object) -> bool:
    if isinstance(value, Mapping):
        return any(isinstance(item, SecretStr) for item in value.values())
    return isinstance(value, SecretStr)


def _revealed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _revealed(item) for key, item in value.items()}
    return value.get_secret_value() if isinstance(value, SecretStr) else value


def _masked(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: HIDDEN if isinstance(item, SecretStr) else item for key, item in value.items()}
    return mask_url(value.get_secret_value()) if name in URL_FIELDS else HIDDEN


def _kept(value: Any, shown: Any, stored: Any) -> Any:
    return stored if stored is not None and isinstance(value, str) and value == shown else value


def _looks_masked(name: str, value: Any) -> bool:
    return value == HIDDEN or (name in URL_FIELDS and isinstance(value, str) and value.endswith(f"/{HIDDEN}"))


def _fault(*where: str) -> InitErrorDetails:
    message = "the masked value is not the one stored for this address: give the whole value"
    return InitErrorDetails(
        type=PydanticCustomError("masked", message),  # a literal of our own, no format string
        loc=where,
        input=HIDDEN,
    )
