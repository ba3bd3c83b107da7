"""Rows of a trace that stay in DuckDB, as a sequence: read in batches whenever somebody goes through them."""
import itertools
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
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

    def where(self, condition: str, *values: Any) -> Iterator[Row]:
        """Those that meet a condition in SQL, in the order of the table."""
        return self._asked(f"SELECT * FROM {{}} WHERE {condition}", *values)

    def asked(self, sql: str, *values: Any) -> list[Row]:
        """The answer to a query, in which {} is the table. Requires: it fits in memory."""
        return list(self._asked(sql, *values))

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
    if isinstance(rows, Rows):
        return rows.where('"group" = ? AND track = ?', group, track)
    return by_begin([row for row in rows if row[:2] == (group, track)])


def of_group(rows: Sequence[Row], group: str) -> Iterable[Row]:
    """Spans or counter values of one group, in order."""
    return rows.where('"group" = ?', group) if isinstance(rows, Rows) else [row for row in rows if row[0] == group]


def overlapping(rows: Sequence[Row], begin: float, end: float) -> Iterable[Row]:
    """Spans of which some part is after `begin` and before `end`, in order."""
    if isinstance(rows, Rows):
        return rows.where("begin_us < ? AND begin_us + dur_us > ?", end, begin)
    return [row for row in rows if row[3] < end and row[3] + row[4] > begin]


def named(rows: Sequence[Row], wanted: Callable[[str], bool]) -> Iterable[Row]:
    """Spans of those names, in order."""
    if isinstance(rows, Rows):
        names = [name for name, in rows.asked("SELECT DISTINCT name FROM {}") if wanted(name)]
        return rows.where("list_contains(?, name)", names)
    return [row for row in rows if wanted(row[2])]


def places(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """(group, track) of spans, in order of appearance."""
    if isinstance(rows, Rows):
        return rows.asked('SELECT "group", track FROM {} GROUP BY ALL ORDER BY min(rowid)')  # type: ignore[return-value]
    return list(dict.fromkeys((row[0], row[1]) for row in rows))


def extent(rows: Sequence[Row], column: str, value: Callable[[Row], float]) -> tuple[float, float]:
    """The least and the most of what `value` tells of a row, and `column` tells in SQL. Without rows: inf and -inf."""
    if isinstance(rows, Rows):
        (least, most), = rows.asked(f"SELECT min({column}), max({column}) FROM {{}}")
        return (math.inf, -math.inf) if least is None else (least, most)
    values = [value(row) for row in rows]
    return min(values, default=math.inf), max(values, default=-math.inf)


def by_begin(rows: Sequence[Row]) -> Iterable[Row]:
    """Spans by when they began. Those of a file are."""
    return rows if isinstance(rows, Rows) else sorted(rows, key=lambda row: row[3])
