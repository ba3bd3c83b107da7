"""What events of Chrome's JSON say of spans, counters and flows: as tuples, or as columns that go to a table in parts."""
import hashlib
import math
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from .spans import Row

_PART = 2_000  # events that are columns at a time

Columns = dict[str, list[tuple[Any, ...]]]


@contextmanager
def told_of(file: Path) -> Iterator[None]:
    """What is no trace in JSON becomes a ConfigError with the file's name."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ConfigError(f"{file}: is not a Perfetto trace ({type(error).__name__}: {error})") from None


class JsonEvents:
    """Takes events in the order of the file. Memory is for one part, and for each track.

    Tables of columns(): "spans" (number, place, name, begin_us, dur_us, detail), "counters" (number, place, counter, at_us, value), "bound"
    (number, flow, place, at_us) of the spans that a flow goes through. place: numbers of places()."""

    def __init__(self) -> None:
        self._groups: dict[Any, str] = {}  # by pid
        self._tracks: dict[Any, str] = {}  # by pid and tid
        self._places: dict[tuple[Any, ...], int] = {}
        self._count = 0

    def columns(self, events: Iterable[Any]) -> Iterator[Columns]:
        """Raises ValueError, TypeError, KeyError, AttributeError or OverflowError for what is no event."""
        part: Columns = {"spans": [], "counters": [], "bound": []}
        due = self._count + _PART
        for event in events:
            self._take(event, part)
            if self._count >= due:
                yield part
                part = {name: [] for name in part}
                due = self._count + _PART
        yield part

    def places(self) -> list[tuple[int, str, str]]:
        """-> (place, group, track) of all that has come; where a counter is has no track."""
        return [(number, self._groups.get(pid, ""), self._tracks.get((pid, *tid), str(*tid)) if tid else "")
                for (pid, *tid), number in self._places.items()]

    def place(self, *at: Any) -> int:
        """The number of a pid, or of a pid and a tid."""
        return self._places.setdefault(at, len(self._places))

    def count(self, events: int) -> int:
        """So many have been taken elsewhere. -> the number of the first."""
        self._count += events
        return self._count - events + 1

    def name(self, event: Any) -> None:
        """Takes an event of metadata."""
        if event["name"] == "process_name":
            self._groups[event["pid"]] = text(event["args"]["name"]).rpartition(": ")[2]  # "vitro sim: units"
        elif event["name"] == "thread_name":
            # What overlaps on one track is drawn in lanes, "flash (2)": they are one track again here.
            self._tracks[event["pid"], event["tid"]] = re.sub(r" \(\d+\)$", "", text(event["args"]["name"]))

    def _take(self, event: Any, part: Columns) -> None:
        kind = event["ph"]
        self._count += 1
        if kind == "X":
            times = number(event["ts"]), number(event["dur"])
            number(sum(times))
            part["spans"].append((self._count, self.place(event["pid"], event["tid"]), text(event["name"]), *times,
                                  _detail(event.get("args"))))
        elif kind in ("t", "f") and "id" in event:
            part["bound"].append((self._count, _flow(event["id"]), self.place(event["pid"], event["tid"]), number(event["ts"])))
        elif kind == "C":
            args = event["args"]
            for key, value in args.items():
                name = event["name"] if len(args) == 1 else f"{event['name']}.{key}"
                part["counters"].append((self._count, self.place(event.get("pid")), text(name), number(event["ts"]), number(value)))
        elif kind == "M":
            self.name(event)


def rows_of(events: Iterable[Any]) -> tuple[tuple[Row, ...], tuple[Row, ...], tuple[Row, ...]]:
    """-> the rows of a Trace: spans, counters and flows."""
    reader = JsonEvents()
    found: Columns = {"spans": [], "counters": [], "bound": []}
    for part in reader.columns(events):
        for name, rows in part.items():
            found[name] += rows
    places = {number: (group, track) for number, group, track in reader.places()}
    begun: dict[tuple[int, float], Row] = {}  # the innermost span that begins there
    spans: list[Row] = []
    bound: dict[int, list[Row]] = {}  # by flow: the spans that it goes through
    for _, place, name, begin, duration, detail in found["spans"]:
        spans.append((*places[place], name, begin, duration, detail))
        begun[place, begin] = spans[-1]
    counters = [(places[place][0], name, at, value) for _, place, name, at, value in found["counters"]]
    for _, flow, *at in found["bound"]:
        bound.setdefault(flow, []).extend([begun[tuple(at)]] if tuple(at) in begun else [])
    return (tuple(sorted(spans, key=lambda row: row[3])), tuple(sorted(counters, key=lambda row: row[2])), _flow_rows(bound))


def _flow_rows(flows: dict[int, list[Row]]) -> tuple[Row, ...]:
    """flows: of each the spans that it goes through: a request, and a kernel if there was one."""
    rows = []
    for flow, spans in flows.items():
        request = next((span for span in spans if span[0] == "storage"), None)
        kernel = next((span for span in spans if span[0] == "units"), None)
        if request is not None:
            taken = (kernel[1], kernel[2], kernel[3], kernel[5]) if kernel is not None else (None,) * 4
            rows.append((flow, request[3], request[3] + request[4], request[5], *taken))
    return tuple(sorted(rows, key=lambda row: (row[1], row[0])))


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    if not value.isascii():
        value.encode()  # half of a pair is in no table and on no terminal
    return value


def number(value: Any) -> float:
    found = float(value)
    if not math.isfinite(found):
        raise ValueError(f"{value!r} is no number")
    return found


def _flow(value: Any) -> int:
    """Ours are numbers; others may write texts."""
    if isinstance(value, int) and 0 <= value < 2 ** 64:
        return value
    return int.from_bytes(hashlib.blake2b(repr(value).encode("utf-8", "replace"), digest_size=8).digest())


def _detail(args: dict[str, Any] | None) -> str:
    return text(" ".join(str(value) for value in (args or {}).values()))
