"""What channels of texts and of calls have in common: who provides them, to whom, with which template."""

import hashlib
import re
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any, ClassVar, Self, cast

from pydantic import (
    AfterValidator,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from channels.base import ChannelConfig
from channels.config import SAVING
from channels.fields import Secret
from channels.numbers import LONGEST, Number, Rules, is_chinese, units, webless
from channels.telecom.base import Telecom
from channels.transport import malformed

# Provider → its class, and what `credentials` holds; the first of them says whose account it is.
PROVIDERS: Mapping[str, tuple[str, tuple[str, str]]] = {
    "aliyun": ("channels.telecom.aliyun:Aliyun", ("access_key_id", "access_key_secret")),
    "baidu": ("channels.telecom.baidu:Baidu", ("access_key_id", "access_key_secret")),
    "tencent": ("channels.telecom.tencent:Tencent", ("secret_id", "secret_key")),
    "twilio": ("channels.telecom.twilio:Twilio", ("account_sid", "auth_token")),
}
MAX_NUMBERS = 100
MAX_PARAMS = 20
MAX_TEMPLATE = 2000
_ENDPOINT = re.compile(r"[A-Za-z0-9.\[\]:-]{1,253}")
_JINJA = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)
_NAME = re.compile(r"\w{1,64}")

Numbers = Annotated[
    tuple[Number, ...],
    Field(min_length=1, max_length=MAX_NUMBERS),
    AfterValidator(lambda numbers: tuple(dict.fromkeys(numbers))),
]
Text = Annotated[str, Field(min_length=1, max_length=128)]
Template = Annotated[str, Field(max_length=MAX_TEMPLATE)]


def _endpoint(value: str) -> str:
    scheme, _, rest = value.rpartition("://")
    host = rest.removesuffix("/")
    wrong = scheme not in ("", "http", "https") or _ENDPOINT.fullmatch(host) is None
    if wrong or malformed(f"https://{host}") is not None:
        raise ValueError("give a host, host:port or https://host:port, without a path")
    return value.removesuffix("/")


class TelecomConfig(ChannelConfig):
    """`channel` is the kind, `sms` or `phone`."""

    channel: ClassVar[str]

    provider: str
    to: Numbers
    credentials: dict[str, Secret]
    template_id: Text | None = None
    params: tuple[Template, ...] | dict[str, Template] = Field(default=(), max_length=MAX_PARAMS)
    app_id: Text | None = None
    from_: Text | None = Field(default=None, alias="from")
    region: Text | None = None
    endpoint: Annotated[str, AfterValidator(_endpoint)] | None = None

    @field_validator("provider")
    @classmethod
    def _provider(cls, value: str, info: ValidationInfo) -> str:
        if value not in PROVIDERS:
            raise ValueError(f"is none of {', '.join(PROVIDERS)}")
        found = provider(value)
        if cls.channel not in found.kinds:
            able = [name for name in PROVIDERS if cls.channel in provider(name).kinds]
            raise ValueError(f"{value} offers no {cls.channel}: give one of {', '.join(able)}")
        if info.context == SAVING and (mend := missing_sdk(value)) is not None:
            raise ValueError(mend)
        return value

    @field_validator("credentials")
    @classmethod
    def _credentials(cls, value: dict[str, SecretStr], info: ValidationInfo) -> dict[str, SecretStr]:
        if "provider" not in info.data:  # which is told already
            return value
        name = info.data["provider"]
        wanted = PROVIDERS[name][1]
        if set(value) != set(wanted):
            raise ValueError(f"{name} takes {' and '.join(wanted)}, nothing else")
        return value

    @field_validator("params")
    @classmethod
    def _params(cls, value: tuple[str, ...] | dict[str, str]) -> tuple[str, ...] | dict[str, str]:
        if isinstance(value, dict) and any(_NAME.fullmatch(name) is None for name in value):
            raise ValueError("name each variable in letters, digits and _, as the template does")
        return value

    @model_validator(mode="after")
    def _fits_the_provider(self) -> Self:
        try:
            provider(self.provider).check(self.channel, self)
        except ValidationError:
            raise
        except ValueError as error:
            raise _of_field(type(self), str(error)) from None
        return self

    def targets(self) -> tuple[str, ...]:
        return (self.url(""),) if self.endpoint else ()

    def url(self, usual: str) -> str:
        """`scheme://host[:port]` of the provider: the endpoint's, or else the usual host's, over TLS."""
        where = self.endpoint or usual
        return where if "://" in where else f"https://{where}"

    def meters(self) -> dict[str, str]:
        """Channels of one account share what the provider lets a number have."""
        counted = provider(self.provider).counted(self.channel, self)
        account = self.credentials[PROVIDERS[self.provider][1][0]].get_secret_value()
        name = hashlib.sha256("\0".join((account, *counted)).encode()).hexdigest()[:24]
        return {to: f"{self.channel}:{self.provider}:{name}:{to}" for to in self.to}

    def lint(self) -> tuple[str, ...]:
        """What is sure to come out otherwise than it stands here."""
        rules = provider(self.provider).rules.get(self.channel)
        found = (
            []
            if rules is None
            else [
                f"params.{name}: {said}"
                for name, template in self.templates().items()
                for said in _lint(template, rules)
            ]
        )
        if self.provider != "twilio" and len({is_chinese(number) for number in self.to}) > 1:
            found.append("to: numbers abroad need a template of their own: make another channel for them")
        return tuple(found)

    def templates(self) -> dict[str, str]:
        if isinstance(self.params, dict):
            return dict(self.params)
        return {str(n): template for n, template in enumerate(self.params, 1)}


def _lint(template: str, rules: Rules) -> list[str]:
    """Of the fixed text of a variable: what it says in any case."""
    fixed, limit = _JINJA.sub("", template), min(rules.each or LONGEST, rules.total or LONGEST)
    found = []
    if units(fixed) > limit:
        found.append(f"its fixed text alone is longer than the {limit} characters that may be sent")
    if rules.is_web_free and webless(fixed) != fixed:
        found.append("no link or address may be sent in a variable: put it into the template itself")
    return found


def provider(name: str) -> Telecom:
    """The provider of that name; KeyError: there is none. Imports no SDK."""
    return _load(PROVIDERS[name][0])


def missing_sdk(name: str) -> str | None:
    """What to do where the provider's SDK is not installed; a worker may lack what the server has."""
    found = provider(name)
    try:
        is_there = find_spec(found.module) is not None
    except ModuleNotFoundError:  # of a package above it
        is_there = False
    return None if is_there else f"{name} needs its SDK: pip install 'faultcast[{found.extra}]'"


@cache
def _load(path: str) -> Telecom:
    module, _, name = path.partition(":")
    return cast(Telecom, getattr(import_module(module), name)())


def _of_field(model: type[TelecomConfig], said: str) -> ValidationError:
    """`field: mend` as pydantic reports what is wrong with a field."""
    name, _, mend = said.partition(": ")
    known = {info.alias or field for field, info in model.model_fields.items()}
    where: tuple[Any, ...] = (name,) if name in known else ()
    fault = PydanticCustomError("telecom", "{mend}", {"mend": mend if where else said})
    details = InitErrorDetails(type=fault, loc=where, input=None)
    return ValidationError.from_exception_data(model.__name__, [details], hide_input=True)
