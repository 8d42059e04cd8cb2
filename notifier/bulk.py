"""One statement for many rows, as the driver takes it: SQLAlchemy would work it out anew for each of them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Dialect
from sqlalchemy.orm import Session
from sqlalchemy.sql.dml import UpdateBase

Process = Callable[[Any], Any] | None


class _Compiled(NamedTuple):
    """`names`: in the order of their places, or none where the driver takes them by name."""

    sql: str
    names: Sequence[str]
    usual: Mapping[str, Any]
    processes: Mapping[str, Process]


class Bulk:
    """An INSERT or UPDATE with bind parameters, without RETURNING."""

    def __init__(self, statement: UpdateBase) -> None:
        self._statement = statement
        self._known: dict[str, _Compiled] = {}

    def run(self, session: Session, rows: Sequence[Mapping[str, Any]]) -> int:
        """Answers how many rows of the table it has met. Each of `rows` has the same names."""
        connection = session.connection()
        known = self._compiled(connection.dialect)
        asked = [(name, known.processes.get(name)) for name in rows[0]]
        values = [
            {**known.usual, **{name: row[name] if how is None else how(row[name]) for name, how in asked}}
            for row in rows
        ]
        if known.names:
            placed: Any = [tuple([one[name] for name in known.names]) for one in values]
        else:
            placed = values
        return connection.exec_driver_sql(known.sql, placed).rowcount

    def _compiled(self, dialect: Dialect) -> _Compiled:
        found = self._known.get(dialect.name)
        if found is None:
            compiled = self._statement.compile(dialect=dialect)
            processes = {
                name: bind.type.dialect_impl(dialect).bind_processor(dialect)
                for name, bind in compiled.binds.items()
            }
            usual = {
                name: value if (how := processes[name]) is None else how(value)
                for name, value in compiled.params.items()
            }
            found = _Compiled(str(compiled), tuple(compiled.positiontup or ()), usual, processes)
            self._known[dialect.name] = found
        return found
