"""Where the time of a run goes: what each unit computes, what else its core does, and what it waits for."""
import bisect
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import ConfigError
from .trace import SYSTEM_WORK, Trace, operation

if TYPE_CHECKING:
    import pandas

STEPS = ("policy", "steps")


@dataclass(frozen=True)
class Share:
    """Part of a unit's time."""

    unit: str
    kind: str   # "computes", "system" (its core issues, decides, takes pages in) or "waits"
    what: str   # the operator, the system's work, or what it waited for: "storage read", "cpu1"; "the policy" where nothing else ended
    ms: float
    share: float  # of the time looked at


def where(trace: Trace, steps: str | None = None) -> list[Share]:
    """For each unit, its shares of the time of all steps called `steps` ("prompt", "decode"), or of the whole trace; the largest first.

    A wait ends when the unit begins something. Its reason is what ended last before that, elsewhere: a request of the storage, or a
    kernel of another unit. So a wait counts for one reason as a whole, also where two things were awaited. After its last work a unit
    waits for nothing: "no more work".
    """
    windows = _windows(trace, steps)
    total = sum(end - begin for begin, end in windows)
    ends = sorted((row[3] + row[4], *_waited_for(row)) for row in trace.span_rows
                  if row[0] in ("storage", "units") and row[2] not in SYSTEM_WORK)
    found = []
    for group, unit in trace.tracks("units"):
        sums: dict[tuple[str, str], float] = {}
        spans = sorted((row[3], row[3] + row[4], row[2]) for row in trace.span_rows if row[:2] == (group, unit))
        for (kind, what), begin, end in _parts(unit, spans, ends, windows[0][0] if windows else 0.0, trace.end_us):
            inside = sum(max(0.0, min(end, until) - max(begin, since)) for since, until in _touched(windows, begin, end))
            sums[kind, what] = sums.get((kind, what), 0.0) + inside
        found += [Share(unit, kind, what, us / 1e3, us / total if total else 0.0)
                  for (kind, what), us in sorted(sums.items(), key=lambda item: -item[1]) if us > 0]
    return found


def to_frame(shares: list[Share]) -> "pandas.DataFrame":
    """pandas.DataFrame: unit, kind, what, ms, share."""
    import pandas
    return pandas.DataFrame([vars(share) for share in shares], columns=["unit", "kind", "what", "ms", "share"])


def _windows(trace, steps):
    if steps is None:
        return [(0.0, trace.end_us)]
    found = sorted((row[3], row[3] + row[4]) for row in trace.span_rows if row[:2] == STEPS and row[2] == steps)
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
    open_spans: list[tuple[float, tuple[str, str]]] = []  # (end, what) of spans that others interrupt, outermost first
    reach = 0.0

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
