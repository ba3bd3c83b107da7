"""Where the time of a run goes: what each unit computes, what else its core does, and what it waits for."""
import bisect
from dataclasses import dataclass

from ..errors import ConfigError
from .trace import STEPS, SYSTEM_WORK, Trace, operation


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
    if not trace.span_rows:
        raise ConfigError("the trace has no spans (expected trace.first_token and trace.tokens to name tokens that the run makes)")
    windows = _windows(trace, steps)
    total = sum(end - begin for begin, end in windows)
    ends = sorted((_end_of(row), *_waited_for(row)) for row in trace.span_rows
                  if row[0] in ("storage", "units") and row[2] not in SYSTEM_WORK)
    found = []
    for group, unit in trace.tracks("units"):
        sums: dict[tuple[str, str], int] = {}
        spans = sorted((_ps(row[3]), _end_of(row), row[2]) for row in trace.span_rows if row[:2] == (group, unit))
        for (kind, what), begin, end in _parts(unit, spans, ends, windows[0][0], _ps(trace.end_us)):
            inside = sum(max(0, min(end, until) - max(begin, since)) for since, until in _touched(windows, begin, end))
            sums[kind, what] = sums.get((kind, what), 0) + inside
        found += [Share(unit, kind, what, ps / 1e9, ps / total)
                  for (kind, what), ps in sorted(sums.items(), key=lambda item: -item[1]) if ps > 0]
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


def _waited_for(row):
    """(what a wait for this span is called, the unit that it is of or "")"""
    return (f"storage {operation(row[2])}", "") if row[0] == "storage" else (row[1], row[1])


def _parts(unit, spans, ends, begin, end):
    """-> ((kind, what), begin, end) of a unit's time. System work interrupts kernels: it counts as such, and the kernel for the rest."""
    reach = begin
    for since, until, kind in _flat(spans):
        if since > reach:
            yield ("waits", _reason(unit, reach, since, ends)), reach, since
        yield kind, since, until
        reach = max(reach, until)
    if end > reach:
        yield ("waits", "no more work"), reach, end


def _reason(unit, begin, end, ends):
    """What ended last in (begin, end] on another track."""
    at = bisect.bisect_right(ends, end, key=lambda row: row[0])
    while at > 0 and ends[at - 1][0] > begin:
        at -= 1
        if ends[at][2] != unit:
            return ends[at][1]
    return "the policy"


def _flat(spans):
    """Spans that may lie in each other -> (begin, end, (kind, what)) that do not overlap, ascending. The inner one counts."""
    open_spans: list[tuple[int, tuple[str, str]]] = []  # (end, what) of spans that others interrupt, outermost first
    reach = 0

    def close(until):
        nonlocal reach
        while open_spans and open_spans[-1][0] <= until:
            end, what = open_spans.pop()
            if end > reach:
                yield reach, end, what
            reach = max(reach, end)

    for begin, end, name in sorted(spans, key=lambda span: (span[0], -span[1])):
        yield from close(begin)
        if open_spans and begin > reach:
            yield reach, begin, open_spans[-1][1]
        reach = max(reach, begin)
        open_spans.append((end, ("system", name) if name in SYSTEM_WORK else ("computes", operation(name))))
    yield from close(float("inf"))
