"""`column IN (many values)` as one statement that stays the same however many there are.

SQLAlchemy's own `in_` has a parameter for each value: a text of its own for each number of them, which the
database takes apart and plans anew.
"""

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Boolean, ColumnElement, Dialect, String, bindparam
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.visitors import InternalTraversal
from sqlalchemy.types import TypeDecorator


class _Values(TypeDecorator[Sequence[Any]]):
    """An array of PostgreSQL's, JSON for SQLite."""

    impl = String
    cache_ok = True

    def __init__(self, item: Any) -> None:
        super().__init__()
        self.item = item

    def load_dialect_impl(self, dialect: Dialect) -> Any:
        kind = postgresql.ARRAY(self.item) if dialect.name == "postgresql" else String()
        return dialect.type_descriptor(kind)

    def process_bind_param(self, value: Sequence[Any] | None, dialect: Dialect) -> Any:
        return value if dialect.name == "postgresql" else json.dumps(value)


class among(ColumnElement[bool]):  # noqa: N801  reads like a function
    """Whether a column of numbers or texts is among the values of the parameter `name`."""

    inherit_cache = True
    type = Boolean()
    _traverse_internals = [  # noqa: RUF012  SQLAlchemy's form
        ("column", InternalTraversal.dp_clauseelement),
        ("values", InternalTraversal.dp_clauseelement),
    ]

    def __init__(self, column: ColumnElement[Any], name: str) -> None:
        self.column = column
        self.values = bindparam(name, type_=_Values(column.type))

    def self_group(self, against: Any = None) -> "among":  # noqa: ARG002
        return self


@compiles(among)
def _in_json(element: among, compiler: SQLCompiler, **how: Any) -> str:
    column, values = compiler.process(element.column, **how), compiler.process(element.values, **how)
    return f"{column} IN (SELECT value FROM json_each({values}))"  # noqa: S608  a column and a parameter


@compiles(among, "postgresql")
def _in_array(element: among, compiler: SQLCompiler, **how: Any) -> str:
    return f"{compiler.process(element.column, **how)} = ANY({compiler.process(element.values, **how)})"
