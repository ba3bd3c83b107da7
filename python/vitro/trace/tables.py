"""A trace as tables of DuckDB. What does not fit in `MEMORY` is in files, so memory does not grow with the trace."""
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow

from ..errors import ConfigError
from . import json_pieces, scratch
from .json_events import JsonEvents, told_of
from .json_lines import Lines
from .perfetto import BEGIN, COUNTER, END, Events

if TYPE_CHECKING:
    import duckdb
    import pandas

MEMORY = "256MB"  # that DuckDB takes for tables and for sorting them
_TOGETHER = 16 << 20  # bytes of spans that are sorted together, about
_COLUMNS = pyarrow.schema([("ns", pyarrow.uint64()), ("track", pyarrow.uint64()), ("kind", pyarrow.uint8()), ("name", pyarrow.string()),
                           ("detail", pyarrow.string()), ("value", pyarrow.float64()), ("flows", pyarrow.list_(pyarrow.uint64()))])
_PLACE = """coalesce("group", '') AS "group", coalesce(places.track, events.track::TEXT) AS"""
_ENDS_OF_FLOWS = """requests AS (SELECT DISTINCT ON (flow) * FROM through WHERE "group" = 'storage' ORDER BY flow, passed),
kernels AS (SELECT DISTINCT ON (flow) * FROM through WHERE "group" = 'units' ORDER BY flow, passed)
SELECT flow, requests.begin_us AS submitted_us, requests.begin_us + requests.dur_us AS done_us, requests.detail AS request,
  kernels.track AS track, kernels.name AS kernel, kernels.begin_us AS kernel_begin_us, kernels.detail AS kernel_detail
FROM requests LEFT JOIN kernels USING (flow) ORDER BY submitted_us, flow"""
_SLICES = f"""
-- Beginnings and ends of a track are brackets: a beginning belongs to the next end of its level. Of equal times the file's order counts.
CREATE TABLE slices AS
WITH brackets AS (
  SELECT rowid AS event, ns, track, kind, (kind = {END})::INT + sum(CASE kind WHEN {BEGIN} THEN 1 ELSE -1 END) OVER (
    PARTITION BY track ORDER BY ns, rowid) AS level
  FROM events WHERE kind IN ({BEGIN}, {END})),
matched AS (
  SELECT event, kind, ns AS began, lead(ns) OVER following AS ended, lead(kind) OVER following AS next
  FROM brackets WINDOW following AS (PARTITION BY track, level ORDER BY ns, event))
SELECT event, began, ended FROM matched WHERE kind = {BEGIN} AND next = {END} ORDER BY began, ended, event"""
_SPANS = f"""
SELECT {_PLACE} track, name, began / 1e3 AS begin_us, (ended - began) / 1e3 AS dur_us, detail, flows
FROM slices JOIN events ON events.rowid = event LEFT JOIN places ON uuid = events.track WHERE ns"""
_REST = f"""
CREATE TABLE counters AS
SELECT {_PLACE} counter, ns / 1e3 AS at_us, value
FROM events LEFT JOIN places ON uuid = events.track WHERE kind = {COUNTER} ORDER BY ns, events.rowid;

CREATE TABLE flows AS
WITH through AS (SELECT unnest(flows) AS flow, begin_us AS passed, * EXCLUDE flows FROM spans WHERE flows IS NOT NULL),
{_ENDS_OF_FLOWS};

ALTER TABLE spans DROP COLUMN flows;
DROP TABLE events; DROP TABLE places; DROP TABLE slices"""

_OF_JSON = {"spans": [("number", "BIGINT"), ("place", "BIGINT"), ("name", "TEXT"), ("begin_us", "DOUBLE"), ("dur_us", "DOUBLE"),
                      ("detail", "TEXT")],
            "counters": [("number", "BIGINT"), ("place", "BIGINT"), ("counter", "TEXT"), ("at_us", "DOUBLE"), ("value", "DOUBLE")],
            "bound": [("number", "BIGINT"), ("flow", "UBIGINT"), ("place", "BIGINT"), ("begin_us", "DOUBLE")]}
_ARROW = {"BIGINT": pyarrow.int64(), "UBIGINT": pyarrow.uint64(), "DOUBLE": pyarrow.float64(), "TEXT": pyarrow.string()}
_SLICES_OF_JSON = "CREATE TABLE slices AS SELECT rowid AS event, begin_us AS began FROM json_spans ORDER BY begin_us, number"
_SPANS_OF_JSON = """
SELECT "group", track, name, begin_us, dur_us, detail
FROM slices JOIN json_spans ON json_spans.rowid = event JOIN places USING (place) WHERE begin_us"""
_REST_OF_JSON = f"""
CREATE TABLE counters AS
SELECT "group", counter, at_us, value FROM json_counters JOIN places USING (place) ORDER BY at_us, number;

CREATE TABLE flows AS
WITH begun AS (
  SELECT flow, json_bound.number AS passed, max(json_spans.number) AS number
  FROM json_bound JOIN json_spans USING (place, begin_us) GROUP BY flow, passed),
through AS (
  SELECT flow, passed, name, begin_us, dur_us, detail, "group", track
  FROM begun JOIN json_spans USING (number) JOIN places USING (place)),
{_ENDS_OF_FLOWS};

DROP TABLE json_spans; DROP TABLE json_counters; DROP TABLE json_bound; DROP TABLE places; DROP TABLE slices"""


class Tables:
    """The tables of opened(), for as long as somebody has this object or rows of it, or until close()."""

    def __init__(self, path: Path) -> None:
        """Raises ConfigError as opened() does."""
        held = ExitStack()
        self._connection = held.enter_context(opened(path))
        self.close = weakref.finalize(self, held.close)  # more than once, too

    @property
    def closed(self) -> bool:
        return not self.close.alive

    def cursor(self) -> "duckdb.DuckDBPyConnection":
        """One of its own for each walk through rows, so that several may be under way. Raises ConfigError after close()."""
        if self.closed:
            raise ConfigError("trace: was closed, and its rows are gone (expected load_trace() again)")
        return _quiet(self._connection.cursor())

    def frame(self, sql: str) -> "pandas.DataFrame":
        with self.cursor() as cursor:
            return arrow_reader(cursor.sql(sql), 1 << 20).read_all().to_pandas()

    def frames(self, sql: str, rows: int) -> "Iterator[pandas.DataFrame]":
        """The answer in frames of at most so many rows."""
        with self.cursor() as cursor:
            for part in arrow_reader(cursor.sql(sql), rows):
                yield part.to_pandas()


@contextmanager
def opened(path: Path) -> "Iterator[duckdb.DuckDBPyConnection]":
    """-> a connection to `spans` ("group", track, name, begin_us, dur_us, detail) and `counters` ("group", counter, at_us, value), by time,
    and `flows` (as Trace.flows has them), in microseconds. What does not fit in memory is in a folder for temporary files until the
    context ends. path: of Perfetto's format or, by its ending, JSON.

    Raises ConfigError for a file that is none (with the offset), where `protobuf` or `duckdb` is missing, and where there is no room.
    """
    try:
        import duckdb
    except ImportError as error:
        raise ConfigError(f"{path}: reading it needs the package duckdb, which can not be imported ({error}; expected "
                          "`pip install 'vitro[perfetto]'`)") from None
    events = None if path.suffix == ".json" else Events(path)
    with scratch.folder() as folder:
        with duckdb.connect(config={"memory_limit": MEMORY, "temp_directory": str(folder)}) as connection:
            _quiet(connection)
            try:
                if events is None:
                    _fill_from_json(connection, path)
                else:
                    _fill(connection, events)
            except duckdb.Error as error:
                said = " ".join(str(error).split())
                raise ConfigError(f"{path}: can not be read with {MEMORY} and the folder {folder}: {said}") from None
            yield connection


def _quiet(connection: "duckdb.DuckDBPyConnection") -> "duckdb.DuckDBPyConnection":
    import duckdb
    with suppress(duckdb.InvalidInputException):  # notebooks have none that could be set
        connection.execute("SET enable_progress_bar = false")  # it goes to stdout, of `python -c` as well
    return connection


def arrow_reader(asked: "duckdb.DuckDBPyRelation", rows: int) -> pyarrow.RecordBatchReader:
    """Of what a query gives, so many rows at a time."""
    return (asked.to_arrow_reader if hasattr(asked, "to_arrow_reader") else asked.fetch_arrow_reader)(rows)  # the latter: DuckDB 1


def _fill_from_json(connection: "duckdb.DuckDBPyConnection", path: Path) -> None:
    for table, columns in _OF_JSON.items():
        connection.execute(f"CREATE TABLE json_{table} ({', '.join(map(' '.join, columns))})")
    reader = JsonEvents()
    lines = Lines(reader)
    with told_of(path):
        for part in reader.columns(json_pieces.events(path, lines.take)):
            for tables in ({table: _table(_OF_JSON[table], rows) for table, rows in part.items()}, *lines.given()):
                for table, found in tables.items():
                    _insert(connection, f"json_{table}", found)
        connection.execute('CREATE TABLE places (place BIGINT, "group" TEXT, track TEXT)')
        _insert(connection, "places", _table([("place", "BIGINT"), ("group", "TEXT"), ("track", "TEXT")], reader.places()))
    connection.execute(_SLICES_OF_JSON)
    _put_in_order(connection, "json_spans", _SPANS_OF_JSON)
    connection.execute(_REST_OF_JSON)


def _put_in_order(connection: "duckdb.DuckDBPyConnection", source: str, rows: str) -> None:
    """Makes `spans` of `slices`, which are in order and narrow, some at a time: texts of all of them are never sorted together. rows: a
    query of them that ends with the column of `source` that has their beginnings."""
    width, count = connection.execute(
        f"SELECT avg(length(name) + length(detail)), (SELECT count(*) FROM slices) FROM {source}").fetchall()[0]
    step = max(1000, int(_TOGETHER / (100 + (width or 0))))
    connection.execute(f"CREATE TABLE spans AS {rows} IS NULL AND false")
    for begin in range(0, count, step):
        chosen = f"slices.rowid >= {begin} AND slices.rowid < {begin + step}"
        first, last = connection.execute(f"SELECT min(began), max(began) FROM slices WHERE {chosen}").fetchall()[0]
        connection.execute(f"INSERT INTO spans {rows} BETWEEN ? AND ? AND {chosen} ORDER BY slices.rowid", [first, last])


def _table(columns: list[tuple[str, str]], rows: list[tuple[Any, ...]]) -> pyarrow.Table:
    cells = list(zip(*rows)) or [()] * len(columns)
    return pyarrow.table({name: pyarrow.array(of, _ARROW[kind]) for (name, kind), of in zip(columns, cells)})


def _fill(connection: "duckdb.DuckDBPyConnection", events: Events) -> None:
    connection.execute("CREATE TABLE events (ns UBIGINT, track UBIGINT, kind UTINYINT, name TEXT, detail TEXT, value DOUBLE, "
                       "flows UBIGINT[])")
    connection.execute('CREATE TABLE places (uuid UBIGINT, "group" TEXT, track TEXT)')
    for columns in events.batches():
        _insert(connection, "events", pyarrow.table(list(columns), schema=_COLUMNS))
    _insert(connection, "places", _table([("uuid", "UBIGINT"), ("group", "TEXT"), ("track", "TEXT")], events.places()))
    connection.execute(_SLICES)
    _put_in_order(connection, "events", _SPANS)
    connection.execute(_REST)


def _insert(connection: "duckdb.DuckDBPyConnection", table: str, rows: pyarrow.Table) -> None:
    connection.register("part", rows)
    connection.execute(f"INSERT INTO {table} SELECT * FROM part")
    connection.unregister("part")
