"""Rows of a trace that stay in DuckDB, as a sequence: read in batches whenever somebody goes through them."""
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

from .spans import Row

if TYPE_CHECKING:
    import pandas

    from .tables import Tables

_BATCH = 2_000  # rows that are objects at a time


class Rows(Sequence[Row]):
    """The rows of one table, in its order. As many may be there as a disk holds. Immutable."""

    def __init__(self, tables: "Tables", table: str) -> None:
        self._tables, self._table = tables, table

    def __len__(self) -> int:
        return int(next(self._asked("SELECT count(*) FROM {}"))[0])

    def __iter__(self) -> Iterator[Row]:
        return self._asked("SELECT * FROM {}")

    @overload
    def __getitem__(self, at: int) -> Row: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Row, ...]: ...

    def __getitem__(self, at: int | slice) -> Row | tuple[Row, ...]:
        if isinstance(at, slice):
            begin, end, step = at.indices(len(self))
            if step == 1:
                return tuple(self._asked("SELECT * FROM {} LIMIT ? OFFSET ?", max(0, end - begin), begin))
            return tuple(self[index] for index in range(begin, end, step))
        wanted = at + len(self) if at < 0 else at
        row = next(self._asked("SELECT * FROM {} LIMIT 1 OFFSET ?", wanted), None) if wanted >= 0 else None
        if row is None:
            raise IndexError(f"row {at} of {len(self)}")
        return row

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (Rows, tuple, list)):
            return NotImplemented
        return len(self) == len(other) and all(one == two for one, two in zip(self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self)} rows of {self._table}>"

    def of_track(self, group: str, track: str) -> Iterator[Row]:
        return self._asked('SELECT * FROM {} WHERE "group" = ? AND track = ?', group, track)

    def frame(self) -> "pandas.DataFrame":
        """All of them: columns, which take less than rows."""
        return self._tables.frame(f"SELECT * FROM {self._table}")

    def frames(self, rows: int) -> "Iterator[pandas.DataFrame]":
        """All of them, so many at a time."""
        return self._tables.frames(f"SELECT * FROM {self._table}", rows)

    def _asked(self, sql: str, *values: Any) -> Iterator[Row]:
        cursor = self._tables.cursor()
        try:
            answer = cursor.execute(sql.format(self._table), values)
            while part := answer.fetchmany(_BATCH):
                yield from part
        finally:
            cursor.close()


def of_track(rows: Sequence[Row], group: str, track: str) -> Iterable[Row]:
    """Those spans that are of one track, by when they began."""
    return rows.of_track(group, track) if isinstance(rows, Rows) else by_begin([row for row in rows if row[:2] == (group, track)])


def by_begin(rows: Sequence[Row]) -> Iterable[Row]:
    """Spans by when they began. Those of a file are."""
    return rows if isinstance(rows, Rows) else sorted(rows, key=lambda row: row[3])
