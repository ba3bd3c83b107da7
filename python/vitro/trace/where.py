"""Where the time of a run goes: what each unit computes, what else its core does, and what it waits for."""
import bisect
import heapq
import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass

from ..errors import ConfigError
from .rows import by_begin
from .spans import STEPS, SYSTEM_WORK, Row, operation
from .trace import Trace


@dataclass(frozen=True)
class Share:
    """Part of a unit's time."""

    unit: str
    kind: str   # "computes", "system" (its core issues, decides, takes pages in) or "waits"
    what: str   # the operator, the system's work, or what it waited for: "storage read", "cpu1"; "the policy" where nothing else ended
    ms: float
    share: float  # of the time looked at


def where(trace: Trace, steps: str | None = None) -> list[Share]:
    """For each unit of a trace (`vitro.load_trace`), its shares of the time of all steps called `steps` ("prompt", "decode"), or of all
    that was traced; the largest first. Of a window (trace.first_token) nothing counts before it.

    >>> from vitro.trace.where import where
    >>> [share.ms for share in where(vitro.load_trace("out"), "decode") if share.kind == "waits"]

    A wait ends when the unit begins something. Its reason is what ended last before that, elsewhere: a request of the storage, or a
    kernel of another unit. So a wait counts for one reason as a whole, also where two things were awaited. After its last work a unit
    waits for nothing: "no more work". Times are compared as whole picoseconds, which is what a trace has.

    Raises ConfigError for a trace without spans, and where it has no such step.
    """
    if not len(trace.span_rows):
        raise ConfigError("the trace has no spans (expected trace.first_token and trace.tokens to name tokens that the run makes)")
    windows = _windows(trace, steps)
    total = sum(end - begin for begin, end in windows)
    units = {unit: _Unit(unit, windows) for _, unit in trace.tracks("units")}
    ended = _Ended()
    for begin, together in itertools.groupby(by_begin(trace.span_rows), key=lambda row: _ps(row[3])):
        rows = list(together)
        ended.take(row for row in rows if row[0] in ("storage", "units") and row[2] not in SYSTEM_WORK)
        ended.advance(begin)
        for row in sorted((row for row in rows if row[0] == "units" and _end_of(row) > begin), key=lambda row: (-_end_of(row), row[2])):
            units[row[1]].begin(begin, _end_of(row), row[2], ended)
    found = []
    for name, unit in units.items():
        unit.finish(_ps(trace.end_us))
        found += [Share(name, kind, what, ps / 1e9, ps / total)
                  for (kind, what), ps in sorted(unit.sums.items(), key=lambda item: -item[1]) if ps > 0]
    return found


def _ps(us):
    return round(us * 1e6)


def _end_of(row):
    return _ps(row[3]) + _ps(row[4])


def _windows(trace, steps):
    if steps is None:
        return [(_ps(trace.begin_us), _ps(trace.end_us))]
    found = sorted((_ps(row[3]), _end_of(row)) for row in trace.span_rows if row[:2] == STEPS and row[2] == steps)
    if not found:
        raise ConfigError(f"the trace has no step called {steps!r} (expected prompt or decode)")
    return found


def _touched(windows, begin, end):
    """Windows, which do not overlap, from the first that ends after `begin` to the last that starts before `end`."""
    first = bisect.bisect_right(windows, begin, key=lambda window: window[1])
    last = bisect.bisect_left(windows, end, key=lambda window: window[0])
    return windows[first:last]


class _Ended:
    """What has ended, of the rows so far: memory is for what is open, and for each unit."""

    def __init__(self) -> None:
        self._open: list[tuple[int, str, str]] = []  # a heap of (end, what a wait for it is called, the unit that it is of or "")
        self._last: dict[str, tuple[int, str, str]] = {}  # by unit

    def take(self, rows: Iterable[Row]) -> None:
        for row in rows:
            named = (f"storage {operation(row[2])}", "") if row[0] == "storage" else (row[1], row[1])
            heapq.heappush(self._open, (_end_of(row), *named))

    def advance(self, until: int) -> None:
        while self._open and self._open[0][0] <= until:
            ended = heapq.heappop(self._open)
            self._last[ended[2]] = ended

    def reason(self, unit: str, begin: int) -> str:
        """What ended last after `begin` on another track."""
        last = max((ended for other, ended in self._last.items() if other != unit and ended[0] > begin), default=None)
        return "the policy" if last is None else last[1]


class _Unit:
    """A unit's time in the windows. Spans that may lie in each other come by their beginnings, of equal ones the longest first. System work
    interrupts kernels: it counts as such, and the kernel for the rest."""

    def __init__(self, name: str, windows: list[tuple[int, int]]) -> None:
        self._name, self._windows = name, windows
        self._open: list[tuple[int, tuple[str, str]]] = []  # (end, what) of spans that others interrupt, outermost first
        self._drawn, self._reach = 0, windows[0][0]  # until when spans have counted, and until when anything has
        self.sums: dict[tuple[str, str], int] = {}

    def begin(self, begin: int, end: int, name: str, ended: _Ended) -> None:
        self._close(begin)
        if self._open and begin > self._drawn:
            self._count(self._drawn, begin, self._open[-1][1])
        if not self._open and begin > self._reach:
            self._add(("waits", ended.reason(self._name, self._reach)), self._reach, begin)
        self._drawn = max(self._drawn, begin)
        self._open.append((end, ("system", name) if name in SYSTEM_WORK else ("computes", operation(name))))

    def finish(self, end: int) -> None:
        self._close(math.inf)
        if end > self._reach:
            self._add(("waits", "no more work"), self._reach, end)

    def _close(self, until: float) -> None:
        while self._open and self._open[-1][0] <= until:
            end, what = self._open.pop()
            if end > self._drawn:
                self._count(self._drawn, end, what)
            self._drawn = max(self._drawn, end)

    def _count(self, begin: int, end: int, what: tuple[str, str]) -> None:
        self._add(what, begin, end)
        self._reach = max(self._reach, end)

    def _add(self, what: tuple[str, str], begin: int, end: int) -> None:
        inside = sum(max(0, min(end, until) - max(begin, since)) for since, until in _touched(self._windows, begin, end))
        self.sums[what] = self.sums.get(what, 0) + inside
