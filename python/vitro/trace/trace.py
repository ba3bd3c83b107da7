"""Reading what a run leaves behind: the Perfetto trace and the decision log."""
import collections
import difflib
import json
import math
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.frames import html_table, polars_frame
from ..base.inputs import existing
from ..base.terminal import number
from ..errors import ConfigError

if TYPE_CHECKING:
    import pandas
    import polars

SYSTEM_WORK = ("issue I/O", "policy", "take result", "page_fault")  # spans of a core that are no kernel
_FLOW = ("flow", "submitted_us", "done_us", "request", "track", "kernel", "kernel_begin_us", "kernel_detail")
STEPS = ("policy", "steps")  # group and track of the engine's steps, with layers and parts in them


@dataclass(frozen=True)
class Trace:
    """Spans and counters over simulated or real time, in microseconds from the beginning of the run."""

    span_rows: tuple[tuple[Any, ...], ...]  # of (group, track, name, begin_us, dur_us, detail)
    counter_rows: tuple[tuple[Any, ...], ...]  # of (group, counter, at_us, value)
    flow_rows: tuple[tuple[Any, ...], ...] = ()  # of _FLOW, where the trace has them

    def __repr__(self) -> str:  # a notebook prints it, and it may hold millions of rows
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
        return pandas.DataFrame(list(rows), columns=columns)

    def to_polars(self, table: str = "spans") -> "polars.DataFrame":
        """The same for polars. Raises ConfigError where that is not installed (`pip install polars`)."""
        rows, columns = self._table(table)
        return polars_frame(dict(zip(columns, zip(*rows) if rows else [()] * len(columns))))

    def _table(self, table: str) -> tuple[tuple[tuple[Any, ...], ...], list[str]]:
        tables = {"spans": (self.span_rows, ["group", "track", "name", "begin_us", "dur_us", "detail"]),
                  "counters": (self.counter_rows, ["group", "counter", "at_us", "value"]),
                  "flows": (self.flow_rows, list(_FLOW))}
        if table not in tables:
            raise ConfigError(f"table: {table!r} (expected one of: {', '.join(tables)})")
        return tables[table]

    @cached_property
    def end_us(self) -> float:
        """When the last span ended, in microseconds."""
        return max([row[3] + row[4] for row in self.span_rows] + [row[2] for row in self.counter_rows], default=0.0)

    @cached_property
    def begin_us(self) -> float:
        """Where a window (trace.first_token) begins, in microseconds: with the first that ends in it, or its first step. 0 for a trace
        from the beginning of the run."""
        first = min((row for row in self.span_rows if row[:2] == STEPS and row[2] in ("prompt", "decode")), key=lambda row: row[3],
                    default=None)
        if first is None or first[2] == "prompt":
            return 0.0
        return min([first[3]] + [row[3] + row[4] for row in self.span_rows] + [row[2] for row in self.counter_rows])

    def tracks(self, group: str | None = None) -> list[tuple[str, str]]:
        """(group, track) in order of appearance."""
        return list(dict.fromkeys((row[0], row[1]) for row in self.span_rows if group in (None, row[0])))

    def overlap_us(self, group: str, other: str) -> float:
        """Time in which some track of both groups is busy, such as ("storage", "units"): units with kernels, not with what their cores do
        for the system. A single track is "storage/kv reads"."""
        busy = {name: [(row[3], row[3] + row[4]) for row in self.span_rows
                       if name in (row[0], f"{row[0]}/{row[1]}") and not (row[0] == "units" and row[2] in SYSTEM_WORK)]
                for name in (group, other)}
        return max(0.0, covered(busy[group]) + covered(busy[other]) - covered(busy[group] + busy[other]))

    def summary(self, top: int = 3) -> dict[str, Any]:
        """{"begin_ms", "duration_ms", "tracks": [...], "counters": [...]}: how busy every track was from `begin_us` on, and with what:
        work of the system by its name, kernels by their operator, and of `steps` the steps themselves, without layers and parts."""
        return {"begin_ms": self.begin_us / 1e3, "duration_ms": (self.end_us - self.begin_us) / 1e3,
                "tracks": [self._track_row(*key, top) for key in self.tracks()],
                "counters": [self._counter_row(*key) for key in dict.fromkeys((row[0], row[1]) for row in self.counter_rows)]}

    def _track_row(self, group: str, track: str, top: int) -> dict[str, Any]:
        rows = [row for row in self.span_rows if (row[0], row[1]) == (group, track)]
        begin, whole = self.begin_us, self.end_us - self.begin_us
        busy = covered((max(begin, row[3]), row[3] + row[4]) for row in rows if row[3] + row[4] > begin)
        by_name: collections.Counter[str] = collections.Counter()
        for row in _outermost(rows) if (group, track) == STEPS else rows:
            by_name[row[2] if row[2] in SYSTEM_WORK else operation(row[2])] += max(0.0, row[3] + row[4] - max(begin, row[3]))
        total = sum(by_name.values())
        return {"group": group, "track": track, "spans": len(rows), "busy_ms": busy / 1e3,
                "busy_share": busy / whole if whole else 0.0,
                "top": [{"name": name, "share": time / total if total else 0.0} for name, time in by_name.most_common(top)]}

    def _counter_row(self, group: str, counter: str) -> dict[str, Any]:
        rows = [row[2:] for row in self.counter_rows if (row[0], row[1]) == (group, counter)]
        values = [value for _, value in rows]
        ends = [at for at, _ in rows[1:]] + [self.end_us]
        weights = [end - at for (at, _), end in zip(rows, ends)]
        total = sum(weights)
        mean = sum(v * w for v, w in zip(values, weights)) / total if total > 0 else values[-1]
        return {"group": group, "counter": counter, "min": min(values), "mean": mean, "max": max(values), "last": values[-1]}


def _outermost(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The spans that begin when no longer one is open."""
    found, reach = [], float("-inf")
    for row in sorted(rows, key=lambda row: (row[3], -row[4])):
        if row[3] >= reach - 1e-3:  # spans of Perfetto's format are nanoseconds, and ends are sums
            found.append(row)
            reach = row[3] + row[4]
    return found


def operation(name: str) -> str:
    """What kind of work a span is: its first word, "matmul" of "matmul blk.3.ffn_up"."""
    return name.split(" ", 1)[0].split("(", 1)[0] or name


def covered(intervals: Iterable[tuple[float, float]]) -> float:
    """Length of the union of (begin, end) intervals: overlapping spans of a track count once."""
    total, reach = 0.0, float("-inf")
    for begin, end in sorted(intervals):
        total += max(0.0, end - max(begin, reach))
        reach = max(reach, end)
    return total


def load_trace(path: str | os.PathLike[str]) -> Trace:
    """Reads trace.json or trace.pftrace, or that file of a run's folder."""
    file = trace_file(path)
    if file.suffix == ".pftrace":
        from . import tables
        with tables.opened(file) as connection:
            return Trace(*(tuple(tables.rows(connection, name)) for name in ("spans", "counters", "flows")))
    try:
        events = json.loads(file.read_text())
        events = events["traceEvents"] if isinstance(events, dict) else events
        return _from_events(events)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ConfigError(f"{file}: is not a Perfetto trace ({type(error).__name__}: {error})") from None


def trace_file(path: str | os.PathLike[str]) -> Path:
    """A trace, or that of a run's folder. Raises ConfigError where there is none."""
    return _inside(path, "trace.pftrace" if (Path(path) / "trace.pftrace").exists() else "trace.json")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _number(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is no number")
    return number


def _from_events(events: list[dict[str, Any]]) -> Trace:
    groups: dict[Any, str] = {}
    tracks: dict[Any, str] = {}
    for event in events:
        if event["ph"] == "M" and event["name"] == "process_name":
            groups[event["pid"]] = _text(event["args"]["name"]).rpartition(": ")[2]  # "vitro sim: units"
        elif event["ph"] == "M" and event["name"] == "thread_name":
            # What overlaps on one track is drawn in lanes, "flash (2)": they are one track again here.
            tracks[event["pid"], event["tid"]] = re.sub(r" \(\d+\)$", "", event["args"]["name"])
    spans, counters = [], []
    begun: dict[tuple[Any, Any, float], tuple[Any, ...]] = {}  # the innermost span that begins there
    bound: dict[int, list[tuple[Any, Any, float]]] = {}  # by flow: pid, tid and time of the spans that it goes through
    for event in events:
        group = groups.get(event.get("pid"), "")
        if event["ph"] == "X":
            track = tracks.get((event["pid"], event["tid"]), str(event["tid"]))
            times = _number(event["ts"]), _number(event["dur"])
            _number(sum(times))
            spans.append((group, track, _text(event["name"]), *times, _detail(event.get("args"))))
            begun[event["pid"], event["tid"], spans[-1][3]] = spans[-1]
        elif event["ph"] in ("t", "f") and "id" in event:
            bound.setdefault(event["id"], []).append((event["pid"], event["tid"], _number(event["ts"])))
        elif event["ph"] == "C":
            args = event["args"]
            for key, value in args.items():
                name = event["name"] if len(args) == 1 else f"{event['name']}.{key}"
                counters.append((group, _text(name), _number(event["ts"]), _number(value)))
    flows = {flow: [begun[at] for at in places if at in begun] for flow, places in bound.items()}
    return Trace(tuple(sorted(spans, key=lambda row: row[3])), tuple(sorted(counters, key=lambda row: row[2])), _flow_rows(flows))


def _flow_rows(flows: dict[int, list[tuple[Any, ...]]]) -> tuple[tuple[Any, ...], ...]:
    """flows: of each the spans that it goes through: a request, and a kernel if there was one."""
    rows = []
    for flow, spans in flows.items():
        request = next((span for span in spans if span[0] == "storage"), None)
        kernel = next((span for span in spans if span[0] == "units"), None)
        if request is not None:
            taken = (kernel[1], kernel[2], kernel[3], kernel[5]) if kernel is not None else (None,) * 4
            rows.append((flow, request[3], request[3] + request[4], request[5], *taken))
    return tuple(sorted(rows, key=lambda row: row[1]))


def _detail(args: dict[str, Any] | None) -> str:
    return " ".join(str(value) for value in (args or {}).values())


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

