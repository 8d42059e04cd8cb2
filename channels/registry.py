"""Every channel kind and its adapter. A new kind is one line here."""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import cast

from channels.base import Adapter

_CLASSES: Mapping[str, str] = MappingProxyType(
    {
        "dingtalk": "channels.dingtalk:DingTalk",
        "wecom": "channels.wecom:WeCom",
        "feishu": "channels.feishu:Feishu",
        "email": "channels.email:Email",
        "webhook": "channels.webhook:Webhook",
    }
)


class _Adapters(Mapping[str, Adapter]):
    """By kind; an adapter is imported when it is first asked for."""

    def __getitem__(self, kind: str) -> Adapter:
        return _load(_CLASSES[kind])

    def __iter__(self) -> Iterator[str]:
        return iter(_CLASSES)

    def __len__(self) -> int:
        return len(_CLASSES)


ADAPTERS: Mapping[str, Adapter] = _Adapters()


def adapter(kind: str) -> Adapter:
    """The adapter of a kind.

    Raises:
        KeyError: there is no such kind.
    """
    return ADAPTERS[kind]


@cache
def _load(path: str) -> Adapter:
    module, _, name = path.partition(":")
    return cast(Adapter, getattr(import_module(module), name)())
