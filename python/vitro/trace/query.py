"""SQL over the spans, counters and flows of a trace, by DuckDB."""
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..errors import ConfigError
from .tables import opened
from .trace import load_trace, trace_file

if TYPE_CHECKING:
    import duckdb
    import pandas

_NO_WORDS = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/""", re.DOTALL)  # texts, quoted names, remarks
_BARE_GROUP = re.compile(r"(?<!\bwithin\s)\bgroup\b(?!\s+by\b)", re.IGNORECASE)


def query(trace: str | os.PathLike[str], sql: str) -> "pandas.DataFrame":
    """The rows that one SQL query gives.

    trace: trace.json, or a run's folder. sql: over `spans` ("group", track, name, begin_us, dur_us, detail), `counters` ("group", counter,
    at_us, value) and `flows` (flow, submitted_us, done_us, request, track, kernel, kernel_begin_us, kernel_detail; no rows without
    `trace.flows`), in microseconds from the beginning of the run. `group` is a word of SQL and stands in quotes. Queries see these tables
    and no file. Of Perfetto's format what does not fit in a fixed memory is in temporary files; JSON is read as a whole.

    Raises ConfigError for what DuckDB can not run, for more than one statement, and where DuckDB is not installed
    (`pip install 'vitro[sql]'`).
    """
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
            answer = connection.execute(statements[0]) if statements else None
            if answer is None or answer.description is None:
                raise ConfigError(f"trace query: {sql!r} gives no rows (expected a SELECT)")
            return answer.df()
        except duckdb.Error as error:
            raise ConfigError(f"trace query: {_said(error, sql)}") from None


@contextmanager
def _tables(trace: str | os.PathLike[str]) -> "Iterator[duckdb.DuckDBPyConnection]":
    """Those of Perfetto's format are on disk; JSON is read as a whole."""
    import duckdb
    file = trace_file(trace)
    if file.suffix == ".pftrace":
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
