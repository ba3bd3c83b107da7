"""Events of Chrome's JSON that stand one per line, as vitro writes them: many at once as columns, without objects of Python."""
import io

import numpy
import pyarrow
import pyarrow.compute as pc
import pyarrow.json as arrow_json

from .json_events import JsonEvents

_EVENT = pyarrow.schema([
    ("ph", pyarrow.string()), ("pid", pyarrow.int64()), ("tid", pyarrow.int64()), ("name", pyarrow.string()), ("ts", pyarrow.float64()),
    ("dur", pyarrow.float64()), ("id", pyarrow.uint64()), ("bp", pyarrow.string()), ("cat", pyarrow.string()),
    ("args", pyarrow.struct([("detail", pyarrow.string()), ("value", pyarrow.float64()), ("name", pyarrow.string())]))])
_PARSE = arrow_json.ParseOptions(explicit_schema=_EVENT, unexpected_field_behavior="error")
_MOST = 1 << 31  # of a pid or tid, not itself


class _Other(Exception):
    """The lines hold something that only JsonEvents reads, or that nobody can read."""


class Lines:
    """Takes lines in place of the JsonEvents that it is made with, which numbers events and places."""

    def __init__(self, reader: JsonEvents) -> None:
        self._reader = reader
        self._taken: list[dict[str, pyarrow.Table]] = []

    def take(self, lines: str) -> bool:
        """lines: whole ones, with what separates the last from the next. False: they are not taken, and JsonEvents has to see for itself
        what they are."""
        try:
            self._taken.append(self._columns(_parsed(lines)))
        except (_Other, pyarrow.ArrowException):
            return False
        return True

    def given(self) -> list[dict[str, pyarrow.Table]]:
        """Tables as of JsonEvents.columns(), each once."""
        taken, self._taken = self._taken, []
        return taken

    def _columns(self, events: pyarrow.Table) -> dict[str, pyarrow.Table]:
        kind = events["ph"]
        _require(kind.null_count == 0)
        events = events.append_column("number", pyarrow.array(numpy.arange(len(events), dtype=numpy.int64)))
        spans, counters, bound, named = (events.filter(pc.is_in(kind, pyarrow.array(kinds))) for kinds in (["X"], ["C"], ["t", "f"], ["M"]))
        _check_cells(spans, counters, bound, named)
        detail, value = pc.struct_field(spans["args"], "detail"), pc.struct_field(counters["args"], "value")
        span_places, bound_places = self._places(spans, "pid", "tid"), self._places(bound, "pid", "tid")
        counter_places = self._places(counters, "pid")
        for event in named.to_pylist():
            self._reader.name(event)
        first = self._reader.count(len(events))

        def numbers(table: pyarrow.Table) -> pyarrow.ChunkedArray:
            return pc.add(table["number"], first)
        return {"spans": pyarrow.table({"number": numbers(spans), "place": span_places, "name": spans["name"], "begin_us": spans["ts"],
                                        "dur_us": spans["dur"], "detail": pc.fill_null(detail, "")}),
                "counters": pyarrow.table({"number": numbers(counters), "place": counter_places, "counter": counters["name"],
                                           "at_us": counters["ts"], "value": value}),
                "bound": pyarrow.table({"number": numbers(bound), "flow": bound["id"], "place": bound_places, "begin_us": bound["ts"]})}

    def _places(self, table: pyarrow.Table, *keys: str) -> numpy.ndarray:
        joined = numpy.zeros(len(table), numpy.int64)
        for key in keys:
            part = table[key].to_numpy()
            _require(((part >= 0) & (part < _MOST)).all())
            joined = joined * _MOST + part
        found, index = numpy.unique(joined, return_inverse=True)
        numbers = [self._reader.place(*divmod(int(at), _MOST) if len(keys) == 2 else (int(at),)) for at in found]
        return numpy.array(numbers, numpy.int64)[index]


def _parsed(lines: str) -> pyarrow.Table:
    """One row per line. Each has to end with the comma behind its event, so that none is missing, or hides in a value."""
    text = lines.encode()
    count = text.count(b"\n")
    _require(text.count(b"},\n") == count)
    found = arrow_json.read_json(io.BytesIO(text.replace(b"},\n", b"}\n")), parse_options=_PARSE)
    _require(len(found) == count)
    return found


def _check_cells(spans: pyarrow.Table, counters: pyarrow.Table, bound: pyarrow.Table, named: pyarrow.Table) -> None:
    """Raises _Other unless JsonEvents would make of these what their columns say."""
    for table, columns in ((spans, ("name", "pid", "tid", "ts", "dur")), (counters, ("name", "pid", "ts")),
                           (bound, ("id", "pid", "tid", "ts")), (named, ("name", "pid", "tid"))):
        _require(all(table[column].null_count == 0 for column in columns))

    def absent(table: pyarrow.Table, key: str) -> int:
        return int(pc.struct_field(table["args"], key).null_count)
    _require(absent(spans, "detail") == spans["args"].null_count and absent(spans, "value") == absent(spans, "name") == len(spans))
    _require(absent(counters, "value") == 0 and absent(counters, "detail") == absent(counters, "name") == len(counters))
    _require(absent(named, "name") == 0)
    for number in (spans["ts"], spans["dur"], pc.add(spans["ts"], spans["dur"]), counters["ts"], pc.struct_field(counters["args"], "value"),
                   bound["ts"]):
        _require(pc.all(pc.is_finite(number), min_count=0).as_py())


def _require(met: bool) -> None:
    if not met:
        raise _Other
