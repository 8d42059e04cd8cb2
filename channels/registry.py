"""Every channel kind and its adapter: ours, one line each, and those that other packages bring."""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import cast

from channels.absent import Absent
from channels.base import Adapter
from channels.plugins import Plugins

_CLASSES: Mapping[str, str] = MappingProxyType(
    {
        "dingtalk": "channels.dingtalk:DingTalk",
        "wecom": "channels.wecom:WeCom",
        "feishu": "channels.feishu:Feishu",
        "email": "channels.email:Email",
        "webhook": "channels.webhook:Webhook",
        "sms": "channels.sms:Sms",
        "phone": "channels.phone:Phone",
        "apprise": "channels.apprise:Apprise",
    }
)


class _Adapters(Mapping[str, Adapter]):
    """By kind; an adapter is imported when it is first asked for, other packages' all at once."""

    def __init__(self) -> None:
        self._plugins = Plugins(taken=frozenset(_CLASSES))

    def __getitem__(self, kind: str) -> Adapter:
        return _load(_CLASSES[kind]) if kind in _CLASSES else self._plugins.adapters[kind]

    def __iter__(self) -> Iterator[str]:
        yield from _CLASSES
        yield from self._plugins.adapters

    def __len__(self) -> int:
        return len(_CLASSES) + len(self._plugins.adapters)


ADAPTERS: Mapping[str, Adapter] = _Adapters()


def adapter(kind: str) -> Adapter:
    """The adapter of a stored channel's kind; one that only says so where its package is gone."""
    return ADAPTERS.get(kind) or Absent(kind)


@cache
def _load(path: str) -> Adapter:
    module, _, name = path.partition(":")
    return cast(Adapter, getattr(import_module(module), name)())
