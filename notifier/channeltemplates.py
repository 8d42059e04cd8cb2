"""The templates within a channel's config, tried on samples when the channel is saved."""

from collections.abc import Iterator

from channels.base import ChannelConfig
from notifier import templating
from notifier.items import ITEMS
from notifier.problems import invalid
from notifier.samples import sample_facts

LANGUAGE = "en"  # what a template may do is the same in both


def check(config: ChannelConfig) -> tuple[str, ...]:
    """Warnings of names that are no facts. Holds no transaction.

    Raises:
        Problem: one of them cannot be filled at all; names `config.params.N` and what is wrong (422).
    """
    templates = dict(config.templates())
    if not templates:
        return ()
    for name, fault in _faults(templates, is_strict=False):
        raise invalid(f"config.params.{_place(config, name)}", fault)
    unknown = dict(reversed([*_faults(templates, is_strict=True)]))
    return tuple(f"params.{_place(config, name)}: {fault}" for name, fault in sorted(unknown.items()))


def _faults(templates: dict[str, str], *, is_strict: bool) -> Iterator[tuple[str, str]]:
    for item in ITEMS:
        for facts in sample_facts(item, LANGUAGE):
            for name, fault in templating.fill(templates, facts, is_strict=is_strict).faults.items():
                yield name, str(fault)


def _place(config: ChannelConfig, name: str) -> str:
    """As a field of the config: those of a list are counted from 0, as other fields are."""
    is_list = isinstance(getattr(config, "params", None), tuple)
    return str(list(config.templates()).index(name)) if is_list else name
