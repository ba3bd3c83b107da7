"""Rows of a trace that stay in DuckDB, as a sequence: read in batches whenever somebody goes through them."""
import itertools
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

from .spans import Row

if TYPE_CHECKING:
    import pandas

    from .tables import Tables

_BATCH = 2_000  # rows that are objects at a time


class Rows(Sequence[Row]):
    """The rows of one table, in its order. As many may be there as a disk holds. Immutable. Equal to the tuple of
    the same rows; has no hash."""

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
            wanted = range(*at.indices(len(self)))
            if not wanted:
                return ()
            first, last = sorted((wanted[0], wanted[-1]))
            found = tuple(itertools.islice(self._between(first, last + 1), 0, None, abs(wanted.step)))
            return found if wanted.step > 0 else found[::-1]
        index = operator.index(at)
        place = index + len(self) if index < 0 else index
        row = next(self._between(place, place + 1), None) if place >= 0 else None
        if row is None:
            raise IndexError(f"row {index} of {len(self)}")
        return row

    def __reversed__(self) -> Iterator[Row]:
        for end in range(len(self), 0, -_BATCH):
            yield from reversed(list(self._between(max(0, end - _BATCH), end)))

    def index(self, value: Any, start: int = 0, stop: int | None = None) -> int:
        """By one walk. Raises ValueError where it is not there."""
        begin, end, _ = slice(start, stop).indices(len(self))
        for at, row in enumerate(self._between(begin, end), begin):
            if row == value:
                return at
        raise ValueError(f"{value!r} is no row of {self._table}")

    def __reduce__(self) -> tuple[type, tuple[tuple[Row, ...]]]:
        """A copy, or what another process gets, is a tuple: all rows, in memory."""
        return tuple, (tuple(self),)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (Rows, tuple, list)):
            return NotImplemented
        return len(self) == len(other) and all(one == two for one, two in zip(self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<rows of {self._table}, closed>" if self._tables.closed else f"<{len(self)} rows of {self._table}>"

    @property
    def closed(self) -> bool:
        return self._tables.closed

    def close(self) -> None:
        """Removes the rows of this trace from disk, those of its other tables as well."""
        self._tables.close()

    def of_track(self, group: str, track: str) -> Iterator[Row]:
        return self._asked('SELECT * FROM {} WHERE "group" = ? AND track = ?', group, track)

    def frame(self) -> "pandas.DataFrame":
        """All of them: columns, which take less than rows."""
        return self._tables.frame(f"SELECT * FROM {self._table}")

    def frames(self, rows: int) -> "Iterator[pandas.DataFrame]":
        """All of them, so many at a time."""
        return self._tables.frames(f"SELECT * FROM {self._table}", rows)

    def _between(self, begin: int, end: int) -> Iterator[Row]:
        """Those whose numbers are from `begin` to before `end`: tables are only ever added to, so that is the number of the row."""
        return self._asked("SELECT * FROM {} WHERE rowid >= ? AND rowid < ?", begin, end)

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
