"""Reading what a run leaves behind: the Perfetto trace and the decision log."""
import collections
import difflib
import importlib.util
import json
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.frames import html_table, polars_frame
from ..base.inputs import existing
from ..base.terminal import number
from ..errors import ConfigError
from . import busy
from .json_events import rows_of, told_of
from .rows import Rows, by_begin, extent, of_track, places
from .spans import STEPS, SYSTEM_WORK, Row, Union

if TYPE_CHECKING:
    import pandas
    import polars

WHOLE = 32 << 20  # bytes of JSON that are read as a whole
_FLOW = ("flow", "submitted_us", "done_us", "request", "track", "kernel", "kernel_begin_us", "kernel_detail")


@dataclass(frozen=True)
class Trace:
    """Spans and counters over simulated or real time, in microseconds from the beginning of the run.

    Of a large file the rows are read again whenever they are gone through: all that is here but `spans`, `counters`, `flows` and the
    conversions holds a part of them at a time. Their temporary files are there until nobody has the trace or its rows, or until close():

    >>> with vitro.load_trace("out/run") as trace:
    ...     trace.summary()
    """

    span_rows: Sequence[Row]  # of (group, track, name, begin_us, dur_us, detail)
    counter_rows: Sequence[Row]  # of (group, counter, at_us, value)
    flow_rows: Sequence[Row] = ()  # of _FLOW, where the trace has them

    def close(self) -> None:
        """Removes temporary files of rows at once. Such rows are gone then; those in memory stay."""
        for rows in (self.span_rows, self.counter_rows, self.flow_rows):
            if isinstance(rows, Rows):
                rows.close()

    def __enter__(self) -> "Trace":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:  # a notebook prints it, and it may hold millions of rows
        if isinstance(self.span_rows, Rows) and self.span_rows.closed:
            return "Trace(closed)"
        return f"Trace({len(self.span_rows)} spans, {len(self.counter_rows)} counter values, {self.end_us / 1e3:.3g} ms)"

    def _repr_html_(self) -> str:
        """What a notebook shows: how busy every track was, and with what."""
        told = self.summary()
        rows = [(f"{row['group']}/{row['track']}", str(row["spans"]), number(row["busy_ms"]), f"{row['busy_share']:.1%}",
                 ", ".join(f"{top['name']} {top['share']:.0%}" for top in row["top"])) for row in told["tracks"]]
        return html_table(rows, ["track", "spans", "busy, ms", "busy", "mostly"], f"{number(told['duration_ms'])} ms")

    @cached_property
    def spans(self) -> "pandas.DataFrame":
        """pandas.DataFrame: group, track, name, begin_us, dur_us, detail."""
        return self.to_pandas("spans")

    @cached_property
    def counters(self) -> "pandas.DataFrame":
        """pandas.DataFrame: group, counter, at_us, value."""
        return self.to_pandas("counters")

    @cached_property
    def flows(self) -> "pandas.DataFrame":
        """pandas.DataFrame: what became of each read, where the trace has flows (`trace.flows`): flow, submitted_us, done_us, request
        (offset and length), and of the first kernel that took what it brought track, kernel, kernel_begin_us and kernel_detail, null where
        none did."""
        return self.to_pandas("flows")

    def to_pandas(self, table: str = "spans") -> "pandas.DataFrame":
        """A table of its own, which may be changed. table: "spans", "counters" or "flows"; times in microseconds from the beginning of the
        run."""
        import pandas
        rows, columns = self._table(table)
        return rows.frame() if isinstance(rows, Rows) else pandas.DataFrame(list(rows), columns=columns)

    def batches(self, table: str = "spans", rows: int = 100_000) -> "Iterator[pandas.DataFrame]":
        """The same in tables of at most so many rows, one after the other: of a trace that does not fit in memory.

        >>> sum(part["dur_us"].sum() for part in trace.batches())"""
        import pandas
        if rows < 1:
            raise ConfigError(f"rows: {rows} (expected 1 or more)")
        found, columns = self._table(table)
        if isinstance(found, Rows):
            return found.frames(rows)
        return (pandas.DataFrame(list(found[begin:begin + rows]), columns=columns) for begin in range(0, len(found), rows))

    def to_polars(self, table: str = "spans") -> "polars.DataFrame":
        """The same for polars. Raises ConfigError where that is not installed (`pip install polars`)."""
        rows, columns = self._table(table)
        return polars_frame(dict(zip(columns, zip(*rows) if len(rows) else [()] * len(columns))))

    def _table(self, table: str) -> tuple[Sequence[Row], list[str]]:
        tables = {"spans": (self.span_rows, ["group", "track", "name", "begin_us", "dur_us", "detail"]),
                  "counters": (self.counter_rows, ["group", "counter", "at_us", "value"]),
                  "flows": (self.flow_rows, list(_FLOW))}
        if table not in tables:
            raise ConfigError(f"table: {table!r} (expected one of: {', '.join(tables)})")
        return tables[table]

    @property
    def end_us(self) -> float:
        """When the last span ended, in microseconds."""
        return self._window[1]

    @property
    def begin_us(self) -> float:
        """Where a window (trace.first_token) begins, in microseconds: with the first that ends in it, or its first step. 0 for a trace
        from the beginning of the run."""
        return self._window[0]

    @cached_property
    def _window(self) -> tuple[float, float]:
        step = next((row for row in of_track(self.span_rows, *STEPS) if row[2] in ("prompt", "decode")), None)
        firsts, lasts = zip(extent(self.span_rows, "begin_us + dur_us", lambda row: row[3] + row[4]),
                            extent(self.counter_rows, "at_us", lambda row: row[2]))
        first, last = min(firsts), max(lasts)
        begin = 0.0 if step is None or step[2] == "prompt" else min(step[3], first)
        return begin, last if last > -math.inf else 0.0

    def tracks(self, group: str | None = None) -> list[tuple[str, str]]:
        """(group, track) in order of appearance."""
        return [place for place in self._tracks if group in (None, place[0])]

    @cached_property
    def _tracks(self) -> list[tuple[str, str]]:
        return places(self.span_rows)

    def overlap_us(self, group: str, other: str) -> float:
        """Time in which some track of both groups is busy, such as ("storage", "units"): units with kernels, not with what their cores do
        for the system. A single track is "storage/kv reads"."""
        one, two, either = Union(), Union(), Union()
        for row in by_begin(self.span_rows):
            if row[0] == "units" and row[2] in SYSTEM_WORK:
                continue
            names = row[0], f"{row[0]}/{row[1]}"
            for union, asked in ((one, group in names), (two, other in names), (either, group in names or other in names)):
                if asked:
                    union.add(row[3], row[3] + row[4])
        return max(0.0, one.total + two.total - either.total)

    def summary(self, top: int = 3) -> dict[str, Any]:
        """{"begin_ms", "duration_ms", "tracks": [...], "counters": [...]}: how busy every track was from `begin_us` on, and with what:
        work of the system by its name, kernels by their operator, and of `steps` the steps themselves, without layers and parts."""
        begin, end = self._window
        return {"begin_ms": begin / 1e3, "duration_ms": (end - begin) / 1e3,
                "tracks": busy.of_tracks(self.span_rows, self._tracks, begin, end, top),
                "counters": busy.of_counters(self.counter_rows, end)}


def load_trace(path: str | os.PathLike[str]) -> Trace:
    """Reads trace.json or trace.pftrace, or that file of a run's folder. Rows of Perfetto's format, and of JSON above 32 MiB where DuckDB
    is installed, stay in temporary files for as long as somebody has the trace."""
    file = trace_file(path)
    if file.suffix == ".pftrace" or in_tables(file):
        from . import tables
        held = tables.Tables(file)
        return Trace(*(Rows(held, name) for name in ("spans", "counters", "flows")))
    with told_of(file):
        events = json.loads(file.read_text())
        return Trace(*rows_of(events["traceEvents"] if isinstance(events, dict) else events))


def in_tables(file: Path) -> bool:
    """Whether a trace in JSON is too large to be read as a whole, and can be read otherwise."""
    return file.suffix == ".json" and file.stat().st_size > WHOLE and importlib.util.find_spec("duckdb") is not None


def trace_file(path: str | os.PathLike[str]) -> Path:
    """A trace, or that of a run's folder. Raises ConfigError where there is none."""
    return _inside(path, "trace.pftrace" if (Path(path) / "trace.pftrace").exists() else "trace.json")


def diff_decisions(a: str | os.PathLike[str], b: str | os.PathLike[str], *, context: int = 3, limit: int = 5) -> dict[str, Any]:
    """Compares two decision logs in order.

    -> {"equal", "count": [in a, in b], "kinds": {kind: [in a, in b]}, "hunks": [...], "more"}. A hunk has "a_begin",
    "b_begin" (counted from 1), the differing lines "a" and "b", and equal lines "before" and "after".
    """
    left, right = _decisions(a), _decisions(b)
    lines = [[line for line, _ in log] for log in (left, right)]
    kinds = [collections.Counter(kind for _, kind in log) for log in (left, right)]
    hunks, more = _hunks(lines[0], lines[1], context, limit) if lines[0] != lines[1] else ([], False)
    return {"equal": lines[0] == lines[1], "count": [len(left), len(right)],
            "kinds": {kind: [kinds[0][kind], kinds[1][kind]] for kind in sorted(set(kinds[0]) | set(kinds[1]))},
            "hunks": hunks, "more": more}


# Matching is quadratic at worst: beyond the common beginning, only this many decisions are aligned.
_WINDOW = 2000


def _hunks(a: list[str], b: list[str], context: int, limit: int) -> tuple[list[dict[str, Any]], bool]:
    start = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    window_a, window_b = a[start:start + _WINDOW], b[start:start + _WINDOW]
    changes = [op for op in difflib.SequenceMatcher(None, window_a, window_b, autojunk=False).get_opcodes() if op[0] != "equal"]
    hunks = []
    for _, a0, a1, b0, b1 in changes[:limit]:
        a0, a1, b0, b1 = a0 + start, a1 + start, b0 + start, b1 + start
        hunks.append({"a_begin": a0 + 1, "b_begin": b0 + 1, "a": a[a0:a1], "b": b[b0:b1], "before": a[max(0, a0 - context):a0],
                      "after": a[a1:a1 + context]})
    cut = max(len(a), len(b)) > start + _WINDOW
    return hunks, len(changes) > limit or cut


def _decisions(path: str | os.PathLike[str]) -> list[tuple[str, str]]:
    """-> [(line for people, kind)]"""
    path = _inside(path, "decisions.jsonl")
    log = []
    for number, text in enumerate(path.read_bytes().splitlines(), 1):
        try:
            entry = json.loads(text)
            log.append((f"{entry['kind']} {entry['what']} -> {entry['where']}", entry["kind"]))
        except (ValueError, KeyError, TypeError):
            raise ConfigError(f'{path}:{number}: is not a decision (expected {{"kind": ..., "what": ..., "where": ...}})') from None
    return log


def _inside(path: str | os.PathLike[str], name: str) -> Path:
    path = Path(path)
    return Path(existing(path / name if path.is_dir() else path))

