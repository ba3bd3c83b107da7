"""SQL over the spans, counters and flows of a trace, by DuckDB."""
import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import pyarrow
from pyarrow import csv, parquet

from ..base.whole_files import in_place
from ..errors import ConfigError
from .tables import arrow_reader, opened
from .trace import in_tables, load_trace, trace_file

if TYPE_CHECKING:
    import duckdb
    import pandas

_NO_WORDS = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/""", re.DOTALL)  # texts, quoted names, remarks
_PART = 10_000  # rows that are written together
_BARE_GROUP = re.compile(r"(?<!\bwithin\s)\bgroup\b(?!\s+by\b)", re.IGNORECASE)


def query(trace: str | os.PathLike[str], sql: str) -> "pandas.DataFrame":
    """The rows that one SQL query gives.

    trace: trace.json, or a run's folder. sql: over `spans` ("group", track, name, begin_us, dur_us, detail), `counters` ("group", counter,
    at_us, value) and `flows` (flow, submitted_us, done_us, request, track, kernel, kernel_begin_us, kernel_detail; no rows without
    `trace.flows`), in microseconds from the beginning of the run. `group` is a word of SQL and stands in quotes. Queries see these tables
    and no file. What does not fit in a fixed memory is in temporary files; JSON up to 32 MiB is read as a whole. The rows that the query
    gives are all in memory: query_to() writes them to a file.

    Raises ConfigError for what DuckDB can not run, for more than one statement, and where DuckDB is not installed
    (`pip install 'vitro[sql]'`).
    """
    with _answered(trace, sql) as answer:
        return answer.df()


def query_to(trace: str | os.PathLike[str], sql: str, file: str | os.PathLike[str]) -> int:
    """The same into a file, .parquet or .csv, as the rows come: memory is for one part of them. -> how many there are. Raises ConfigError
    besides for columns that the format can not hold. Where it raises, what was there before stays."""
    path = Path(file)
    if path.suffix not in (".parquet", ".csv"):
        raise ConfigError(f"{path}: is of no format that is written (expected a name that ends in .parquet or .csv)")
    count = 0
    with in_place(path) as unfinished, unfinished.open("wb") as sink, _answered(trace, sql) as answer:  # a wrong path is told first
        reader = arrow_reader(answer, _PART)
        try:
            with _writer(path, sink, reader.schema) as writer:
                for part in reader:
                    writer.write_batch(part)
                    count += part.num_rows
        except (pyarrow.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:  # of the file, not of the query
                raise
            raise ConfigError(f"trace query: {_said(error, sql)}") from None
    return count


def _writer(path: Path, sink: BinaryIO, columns: pyarrow.Schema) -> "parquet.ParquetWriter | csv.CSVWriter":
    """Raises ConfigError for columns that the format can not hold."""
    for column in columns:  # Arrow does not tell which one it is
        try:
            with _opened(path, io.BytesIO(), pyarrow.schema([column])) as writer:
                writer.write_table(pyarrow.table([pyarrow.nulls(1, column.type)], [column.name]))
        except pyarrow.ArrowException:
            raise ConfigError(f"trace query: column {column.name!r} is {column.type}, which {path.suffix} can not hold (expected "
                              "`CAST(... AS TEXT)`)") from None
    return _opened(path, sink, columns)


def _opened(path: Path, sink: BinaryIO, columns: pyarrow.Schema) -> "parquet.ParquetWriter | csv.CSVWriter":
    return parquet.ParquetWriter(sink, columns, compression="zstd") if path.suffix == ".parquet" else csv.CSVWriter(sink, columns)


@contextmanager
def _answered(trace: str | os.PathLike[str], sql: str) -> "Iterator[duckdb.DuckDBPyRelation]":
    """-> what the query gives, whose rows are still to come."""
    try:
        import duckdb
    except ImportError as error:
        raise ConfigError(f"trace query: needs the package duckdb, which can not be imported ({error}; expected "
                          "`pip install 'vitro[sql]'`)") from None
    with _tables(trace) as connection:
        connection.execute("SET enable_external_access = false")
        try:
            statements = connection.extract_statements(sql)
            if len(statements) > 1:
                raise ConfigError(f"trace query: {sql!r} has {len(statements)} statements (expected one SELECT)")
            answer = connection.sql(statements[0]) if statements else None
            if answer is None:
                raise ConfigError(f"trace query: {sql!r} gives no rows (expected a SELECT)")
            yield answer
        except duckdb.Error as error:
            raise ConfigError(f"trace query: {_said(error, sql)}") from None


@contextmanager
def _tables(trace: str | os.PathLike[str]) -> "Iterator[duckdb.DuckDBPyConnection]":
    """Those of a file that load_trace() does not hold in memory are on disk."""
    import duckdb
    file = trace_file(trace)
    if file.suffix == ".pftrace" or in_tables(file):
        with opened(file) as connection:
            yield connection
        return
    found = load_trace(file)
    with duckdb.connect() as connection:
        for table in ("spans", "counters", "flows"):
            connection.register(table, found.to_pandas(table))
        yield connection


def _said(error: Exception, sql: str) -> str:
    """DuckDB's message without the lines that point into the query."""
    said = re.split(r" LINE \d+:", " ".join(str(error).split()))[0]
    words = _NO_WORDS.sub(lambda found: " " if found[0][0] in "-/" else " _ ", sql)
    return said + ('; `group` is a word of SQL: write "group"' if _BARE_GROUP.search(" ".join(words.split())) else "")
