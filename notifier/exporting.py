"""The delivery log as a file: rows in batches, each read in a transaction of its own, the newest first."""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import chain
from typing import Any

from notifier.auth import Principal
from notifier.deliveries import Filters, rows_of
from notifier.deliverydocuments import DeliveryDocument, as_json
from notifier.pages import MAX_LIMIT, Ask
from notifier.storage import Store

COLUMNS = tuple(DeliveryDocument.model_fields)
# The wide ones too: spreadsheets of East Asia take them for the others.
_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠", "\t", "\r", "\n")


class Format(StrEnum):
    NDJSON = "ndjson"
    CSV = "csv"


MEDIA_TYPES = {Format.NDJSON: "application/x-ndjson", Format.CSV: "text/csv; charset=utf-8; header=present"}


def exported(store: Store, principal: Principal, filters: Filters, how: Format) -> Iterator[str]:
    """Text, a batch at a time; nothing is held between two of them.

    Raises:
        Problem: what `deliveries.rows_of` says of the filters, before there is any text.
    """
    batches = _batches(store, principal, filters)
    first = next(batches, [])
    everything = chain([first], batches)
    return _lines(everything) if how is Format.NDJSON else _table(everything)


def _batches(store: Store, principal: Principal, filters: Filters) -> Iterator[Sequence[str]]:
    cursor: str | None = None
    while True:
        with store.read() as session:
            found = rows_of(session, principal, filters, Ask(MAX_LIMIT, cursor))
            some = as_json(session, found.rows)
        yield some
        cursor = found.next_cursor
        if cursor is None:
            return


def _lines(batches: Iterator[Sequence[str]]) -> Iterator[str]:
    for batch in batches:
        yield "".join(f"{one}\n" for one in batch)


def _table(batches: Iterator[Sequence[str]]) -> Iterator[str]:
    yield _rows([COLUMNS])
    for batch in batches:
        yield _rows([[cell(one[name]) for name in COLUMNS] for one in map(json.loads, batch)])


def cell(value: Any) -> str:
    """A value for a spreadsheet: it must not take a text for a formula."""
    if value is None:
        return ""
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULA) else value
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return cell(" ".join(value))
    return json.dumps(value, ensure_ascii=False)


def _rows(rows: Sequence[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()
