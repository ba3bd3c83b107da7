"""SQL over the spans and counters of a trace, by DuckDB."""
import os
from typing import TYPE_CHECKING

from ..errors import ConfigError
from .trace import load_trace

if TYPE_CHECKING:
    import pandas


def query(trace: str | os.PathLike[str], sql: str) -> "pandas.DataFrame":
    """The rows that one SQL query gives.

    trace: trace.json, or a run's folder. sql: over `spans` ("group", track, name, begin_us, dur_us, detail) and `counters` ("group",
    counter, at_us, value), in microseconds from the beginning of the run. `group` is a word of SQL and stands in quotes. Queries see these
    two tables and no file. Raises ConfigError for what DuckDB can not run, and where it is not installed (`pip install 'vitro[sql]'`).
    """
    try:
        import duckdb
    except ImportError as error:
        raise ConfigError(f"trace query: needs the package duckdb, which can not be imported ({error}; expected "
                          "`pip install 'vitro[sql]'`)") from None
    found = load_trace(trace)
    with duckdb.connect() as connection:
        connection.register("spans", found.spans)
        connection.register("counters", found.counters)
        connection.execute("SET enable_external_access = false")
        try:
            answer = connection.execute(sql)
            if answer is None or answer.description is None:
                raise ConfigError(f"trace query: {sql!r} gives no rows (expected a SELECT)")
            return answer.df()
        except duckdb.Error as error:
            said = " ".join(str(error).split())
            raise ConfigError(f"trace query: {said}") from None
