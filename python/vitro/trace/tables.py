"""A trace in Perfetto's format as tables of DuckDB. What does not fit in `MEMORY` is in files, so memory does not grow with the trace."""
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow

from ..errors import ConfigError
from .perfetto import BEGIN, COUNTER, END, Events

if TYPE_CHECKING:
    import duckdb

MEMORY = "256MB"  # that DuckDB takes for tables and for sorting them
_COLUMNS = pyarrow.schema([("ns", pyarrow.uint64()), ("track", pyarrow.uint64()), ("kind", pyarrow.uint8()), ("name", pyarrow.string()),
                           ("detail", pyarrow.string()), ("value", pyarrow.float64()), ("flows", pyarrow.list_(pyarrow.uint64()))])
_PLACE = """coalesce("group", '') AS "group", coalesce(places.track, events.track::TEXT) AS"""
_MADE = f"""
-- Beginnings and ends of a track are brackets: a beginning belongs to the next end of its level. Of equal times the file's order counts.
CREATE TABLE slices AS
WITH brackets AS (
  SELECT rowid AS event, ns, track, kind, (kind = {END})::INT + sum(CASE kind WHEN {BEGIN} THEN 1 ELSE -1 END) OVER (
    PARTITION BY track ORDER BY ns, rowid) AS level
  FROM events WHERE kind IN ({BEGIN}, {END})),
matched AS (
  SELECT event, kind, ns AS began, lead(ns) OVER following AS ended, lead(kind) OVER following AS next
  FROM brackets WINDOW following AS (PARTITION BY track, level ORDER BY ns, event))
SELECT event, began, ended FROM matched WHERE kind = {BEGIN} AND next = {END};

CREATE TABLE spans AS
SELECT {_PLACE} track, name, began / 1e3 AS begin_us, (ended - began) / 1e3 AS dur_us, detail, flows
FROM slices JOIN events ON events.rowid = event LEFT JOIN places ON uuid = events.track ORDER BY began, ended, event;

CREATE TABLE counters AS
SELECT {_PLACE} counter, ns / 1e3 AS at_us, value
FROM events LEFT JOIN places ON uuid = events.track WHERE kind = {COUNTER} ORDER BY ns, events.rowid;

CREATE TABLE flows AS
WITH through AS (SELECT unnest(flows) AS flow, * EXCLUDE flows FROM spans WHERE flows IS NOT NULL),
requests AS (SELECT DISTINCT ON (flow) * FROM through WHERE "group" = 'storage' ORDER BY flow, begin_us),
kernels AS (SELECT DISTINCT ON (flow) * FROM through WHERE "group" = 'units' ORDER BY flow, begin_us)
SELECT flow, requests.begin_us AS submitted_us, requests.begin_us + requests.dur_us AS done_us, requests.detail AS request,
  kernels.track AS track, kernels.name AS kernel, kernels.begin_us AS kernel_begin_us, kernels.detail AS kernel_detail
FROM requests LEFT JOIN kernels USING (flow) ORDER BY submitted_us, flow;

ALTER TABLE spans DROP COLUMN flows;
DROP TABLE events; DROP TABLE places; DROP TABLE slices"""


@contextmanager
def opened(path: Path) -> "Iterator[duckdb.DuckDBPyConnection]":
    """-> a connection to `spans` ("group", track, name, begin_us, dur_us, detail) and `counters` ("group", counter, at_us, value), by time,
    and `flows` (as Trace.flows has them), in microseconds. What does not fit in memory is in a folder for temporary files until the
    context ends.

    Raises ConfigError for a file that is none (with the offset), where `protobuf` or `duckdb` is missing, and where there is no room.
    """
    try:
        import duckdb
    except ImportError as error:
        raise ConfigError(f"{path}: reading it needs the package duckdb, which can not be imported ({error}; expected "
                          "`pip install 'vitro[perfetto]'`)") from None
    events = Events(path)
    with tempfile.TemporaryDirectory(prefix="vitro-trace-") as folder:
        with duckdb.connect(config={"memory_limit": MEMORY, "temp_directory": folder}) as connection:
            try:
                _fill(connection, events)
            except duckdb.Error as error:
                said = " ".join(str(error).split())
                raise ConfigError(f"{path}: can not be read with {MEMORY} and the folder {folder}: {said}") from None
            yield connection


def rows(connection: "duckdb.DuckDBPyConnection", table: str) -> Iterator[tuple[Any, ...]]:
    """Of one of the tables of opened(), in its order. Equal texts are one object, since a name comes many times."""
    known: dict[str, str] = {}
    answer = connection.execute(f"SELECT * FROM {table}")
    while part := answer.fetchmany(10_000):
        yield from (tuple([known.setdefault(cell, cell) if isinstance(cell, str) else cell for cell in row]) for row in part)


def _fill(connection: "duckdb.DuckDBPyConnection", events: Events) -> None:
    connection.execute("CREATE TABLE events (ns UBIGINT, track UBIGINT, kind UTINYINT, name TEXT, detail TEXT, value DOUBLE, "
                       "flows UBIGINT[])")
    connection.execute('CREATE TABLE places (uuid UBIGINT, "group" TEXT, track TEXT)')
    for columns in events.batches():
        _insert(connection, "events", pyarrow.table(list(columns), schema=_COLUMNS))
    places = list(zip(*events.places())) or [(), (), ()]
    _insert(connection, "places", pyarrow.table([pyarrow.array(places[0], pyarrow.uint64()), *(pyarrow.array(texts, pyarrow.string())
                                                                                               for texts in places[1:])],
                                                names=["uuid", "group", "track"]))
    connection.execute(_MADE)


def _insert(connection: "duckdb.DuckDBPyConnection", table: str, rows: pyarrow.Table) -> None:
    connection.register("part", rows)
    connection.execute(f"INSERT INTO {table} SELECT * FROM part")
    connection.unregister("part")
