"""How busy tracks were and what counters said, in one walk through a trace's rows."""
import collections
import math
from collections.abc import Iterable, Sequence
from typing import Any

from .rows import by_begin
from .spans import STEPS, SYSTEM_WORK, Row, Union, operation


class _Track:
    """One track's time from `begin` on. Its spans come by their beginnings."""

    def __init__(self, begin: float, nested: bool) -> None:
        self.spans, self.busy = 0, Union()
        self.by_name: collections.Counter[str] = collections.Counter()
        self._begin, self._reach = begin, -math.inf
        self._together: list[Row] | None = [] if nested else None  # spans that began at once, of a track whose outer spans alone count

    def take(self, row: Row) -> None:
        self.spans += 1
        if row[3] + row[4] > self._begin:
            self.busy.add(max(self._begin, row[3]), row[3] + row[4])
        if self._together is None:
            self._count(row)
            return
        if self._together and self._together[0][3] != row[3]:
            self.finish()
        self._together.append(row)

    def finish(self) -> None:
        """Counts the spans that begin when no longer one is open."""
        for row in sorted(self._together or (), key=lambda row: -row[4]):
            if row[3] >= self._reach - 1e-3:  # spans of Perfetto's format are nanoseconds, and ends are sums
                self._count(row)
                self._reach = row[3] + row[4]
        if self._together:
            self._together = []

    def _count(self, row: Row) -> None:
        self.by_name[row[2] if row[2] in SYSTEM_WORK else operation(row[2])] += max(0.0, row[3] + row[4] - max(self._begin, row[3]))


def of_tracks(spans: Sequence[Row], places: Sequence[tuple[str, str]], begin: float, end: float, top: int) -> list[dict[str, Any]]:
    """In the order of places: (group, track)."""
    whole = end - begin
    tracks = {place: _Track(begin, nested=place == STEPS) for place in places}
    for row in by_begin(spans):
        tracks[row[0], row[1]].take(row)
    found = []
    for (group, name), track in tracks.items():
        track.finish()
        total, busy = sum(track.by_name.values()), track.busy.total
        found.append({"group": group, "track": name, "spans": track.spans, "busy_ms": busy / 1e3,
                      "busy_share": busy / whole if whole else 0.0,
                      "top": [{"name": what, "share": time / total if total else 0.0} for what, time in track.by_name.most_common(top)]})
    return found


class _Counter:
    def __init__(self, at: float, value: float) -> None:
        self.least = self.most = self.last = value
        self._at, self._volume, self._weight = at, 0.0, 0.0

    def take(self, at: float, value: float) -> None:
        self._hold(at)
        self.least, self.most, self._at, self.last = min(self.least, value), max(self.most, value), at, value

    def mean(self, end: float) -> float:
        self._hold(end)
        return self._volume / self._weight if self._weight > 0 else self.last

    def _hold(self, until: float) -> None:
        self._volume += self.last * (until - self._at)
        self._weight += until - self._at


def of_counters(rows: Iterable[Row], end: float) -> list[dict[str, Any]]:
    """In order of appearance. Means are weighted by time."""
    counters: dict[tuple[str, str], _Counter] = {}
    for group, name, at, value in rows:
        if (group, name) in counters:
            counters[group, name].take(at, value)
        else:
            counters[group, name] = _Counter(at, value)
    return [{"group": group, "counter": name, "min": counter.least, "mean": counter.mean(end), "max": counter.most,
             "last": counter.last} for (group, name), counter in counters.items()]
