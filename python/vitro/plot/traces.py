"""Pictures of traces: what units, flash and memory did over time."""
import collections
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ..trace.rows import of_group, of_track, overlapping
from ..trace.spans import Row, operation
from ..trace.trace import Trace
from .style import COLORS, OTHER, READ, REGIONS, WORK, axes_of, region_order, styled

Traces = Trace | Mapping[str, Trace]  # by title
Bound = float | Mapping[str, float] | None


@styled
def gantt(traces: Traces, *, begin_us: Bound = None, end_us: Bound = None, groups: Sequence[str] = ("units", "storage")) -> Figure:
    """What every unit and the flash did. traces: a Trace, or {title: Trace} to be put under one another.

    begin_us, end_us: the window, one for all, or {title: value}.
    """
    traces = {"": traces} if isinstance(traces, Trace) else traces
    tracks = {title: _ordered(trace, groups) for title, trace in traces.items()}
    counts = [max(1, len(keys)) for keys in tracks.values()]
    figure, axes = axes_of(len(traces), 0.9 + 0.75 * len(traces) + 0.3 * sum(counts), counts)
    shown: dict[str, Any] = {}
    for ax, (title, trace) in zip(axes, traces.items()):
        begin, end = (_pick(bound, title, default) for bound, default in ((begin_us, trace.begin_us), (end_us, trace.end_us)))
        _draw_tracks(ax, trace, tracks[title], begin, end, shown)
        ax.set_title(title)
    axes[-1].set_xlabel("milliseconds since the beginning of the window")
    names = sorted(shown, key=[*COLORS, "other"].index)
    if names:
        figure.legend([shown[name] for name in names], names, loc="outside lower center", ncols=10, handlelength=1, columnspacing=1.2)
    return figure


def _ordered(trace: Trace, groups: Sequence[str]) -> list[tuple[str, str]]:
    """Tracks by group, then cpu2 before cpu10."""
    def key(pair: tuple[str, str]) -> tuple[int, str, int]:
        digits = "".join(filter(str.isdigit, pair[1]))
        return groups.index(pair[0]), pair[1].rstrip("0123456789"), int(digits or 0)
    return sorted((pair for pair in trace.tracks() if pair[0] in groups), key=key)


def _draw_tracks(ax: Axes, trace: Trace, tracks: list[tuple[str, str]], begin: float, end: float, shown: dict[str, Any]) -> None:
    bars = collections.defaultdict(list)
    for group, track, name, at, duration, _ in overlapping(trace.span_rows, begin, end):
        if (group, track) in tracks:
            left = max(at, begin)
            bars[tracks.index((group, track)), operation(name)].append(((left - begin) / 1e3, (min(at + duration, end) - left) / 1e3))
    crowded = sum(map(len, bars.values())) > 4000
    for (row, kind), extents in bars.items():
        color = COLORS.get(kind, OTHER)
        patch = ax.broken_barh(extents, (row - 0.36, 0.72), facecolors=color, linewidth=0, rasterized=crowded)
        shown.setdefault(kind if kind in COLORS else "other", patch)
    ax.set_xlim(0, max(end - begin, 1e-6) / 1e3)
    ax.set_ylim(max(len(tracks), 1) - 0.5, -0.5)
    ax.set_yticks(range(len(tracks)), [track for _, track in tracks])
    ax.grid(axis="y", visible=False)


def _pick(bound: Bound, title: str, default: float) -> float:
    value = bound.get(title) if isinstance(bound, Mapping) else bound
    return default if value is None else value


@styled
def activity(traces: Traces, *, bins: int = 240, groups: Sequence[str] = ("units", "storage")) -> Figure:
    """How busy each track is over time, as a share of each bin. traces: a Trace or {title: Trace}."""
    traces = {"": traces} if isinstance(traces, Trace) else traces
    figure, axes = axes_of(len(traces), 0.5 + 1.5 * len(traces))
    for ax, (title, trace) in zip(axes, traces.items()):
        edges = _edges(trace, bins)
        units, lines = iter(WORK), []
        for group, track in _ordered(trace, groups):
            color = READ if group == "storage" else next(units, OTHER)
            share = busy_share(trace, group, track, edges)
            lines += ax.plot(edges[:-1] / 1e3, 100 * share, color=color, linewidth=1.1, label=track, drawstyle="steps-post")
            if group == "storage":
                ax.fill_between(edges[:-1] / 1e3, 100 * share, color=color, alpha=0.13, step="post", linewidth=0)
        ax.set(title=title, ylabel="% busy", ylim=(0, 104), xlim=(edges[0] / 1e3, edges[-1] / 1e3))
        if lines:
            ax.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=8, handlelength=1.2, borderaxespad=0)
    axes[-1].set_xlabel("milliseconds")
    return figure


def _edges(trace: Trace, bins: int) -> numpy.ndarray:
    """Of bins over all of the trace."""
    return numpy.linspace(trace.begin_us, max(trace.end_us, trace.begin_us + 1e-9), bins + 1)


def busy_share(trace: Trace, group: str, track: str, edges: numpy.ndarray) -> numpy.ndarray:
    """Share of each bin between `edges` (microseconds) that the track was busy; overlapping spans count once."""
    busy = numpy.zeros(len(edges) - 1)
    for merged in _merged(of_track(trace.span_rows, group, track)):
        begins, ends = numpy.array(merged).T
        done = numpy.concatenate([[0.0], numpy.cumsum(ends - begins)])
        # Busy time up to x: the whole intervals before it and the part of the one that it cuts.
        index = numpy.searchsorted(begins, edges, side="right")
        last = numpy.maximum(index - 1, 0)
        until = numpy.where(index == 0, 0.0, done[last] + numpy.clip(edges - begins[last], 0, ends[last] - begins[last]))
        busy += numpy.diff(until)
    return busy / numpy.diff(edges)


def _merged(spans: Iterable[Row], most: int = 100_000) -> Iterator[list[tuple[float, float]]]:
    """Intervals that do not touch, ascending, so many at a time. spans: by their beginnings."""
    part: list[tuple[float, float]] = []
    begin = end = -math.inf
    for row in spans:
        if row[3] <= end:
            end = max(end, row[3] + row[4])
            continue
        if end > -math.inf:
            part.append((begin, end))
        if len(part) == most:
            yield part
            part = []
        begin, end = row[3], row[3] + row[4]
    if end > -math.inf:
        yield [*part, (begin, end)]


_RATES = ("dram", "bandwidth")  # counters of the group "memory" that are GB/s; the others are bytes


@styled
def memory(trace: Trace, *, budget_bytes: float | None = None) -> Figure | None:
    """Bytes per region over time, stacked; None if the trace has no such counters."""
    rows = [row for row in of_group(trace.counter_rows, "memory") if not row[1].endswith(_RATES)]
    if not rows:
        return None
    names = list(dict.fromkeys(row[1] for row in rows))
    times = sorted({trace.begin_us, trace.end_us, *(row[2] for row in rows)})
    position = {at: i for i, at in enumerate(times)}
    values = numpy.full((len(names), len(times)), numpy.nan)
    for _, name, at, value in rows:
        values[names.index(name), position[at]] = value / 2 ** 20
    for series in values:  # a counter keeps its value until the next one
        kept = 0.0
        for i, value in enumerate(series):
            kept = series[i] = kept if numpy.isnan(value) else value
    figure, (ax,) = axes_of(height=2.7)
    at = numpy.array(times) / 1e3
    floor = numpy.zeros(len(times))
    for name, series in sorted(zip(names, values), key=lambda item: region_order(item[0])):
        color = REGIONS.get(name, OTHER)
        ax.fill_between(at, floor, floor + series, step="post", color=color, alpha=0.9, linewidth=0, label=name)
        floor = floor + series
    if budget_bytes:
        ax.axhline(budget_bytes / 2 ** 20, color=READ, linewidth=1.2, linestyle=(0, (4, 3)))
        ax.annotate("budget", (at[-1], budget_bytes / 2 ** 20), (0, 3), textcoords="offset points", ha="right", color=READ, fontsize=8.5)
    ax.set(ylabel="MiB", xlabel="milliseconds", xlim=(at[0], at[-1]), ylim=(0, None))
    figure.legend(loc="outside lower center", ncols=8, handlelength=1, columnspacing=1.4)
    return figure


@styled
def bandwidth(trace: Trace, *, bins: int = 240) -> Figure | None:
    """DRAM and flash GB/s over time; None if the trace tells neither."""
    edges = _edges(trace, bins)
    rates = collections.defaultdict(list)
    for _, name, at, value in of_group(trace.counter_rows, "memory"):
        if name.endswith(_RATES):
            rates[name].append((at, value))
    series = {"DRAM" if name == "dram" else name: _mean_rate(trace, values, edges) for name, values in rates.items()}
    flash = _flash_rate(trace, edges)
    if flash is not None:
        series["flash"] = flash
    if not series:
        return None
    figure, axes = axes_of(len(series), 0.6 + 1.3 * len(series), sharex=True)
    for ax, (label, values), color in zip(axes, series.items(), (WORK[0], READ, WORK[2], WORK[3])):
        ax.fill_between(edges[:-1] / 1e3, values, step="post", color=color, alpha=0.8, linewidth=0)
        ax.set(ylabel="GB/s", title=label, xlim=(edges[0] / 1e3, edges[-1] / 1e3), ylim=(0, None))
        ax.yaxis.set_major_locator(MaxNLocator(4))
    axes[-1].set_xlabel("milliseconds")
    return figure


def _mean_rate(trace: Trace, values: list[tuple[float, float]], edges: numpy.ndarray) -> numpy.ndarray:
    times = numpy.array([trace.begin_us, *(at for at, _ in values), trace.end_us])
    rates = numpy.array([0.0, *(value for _, value in values)])
    volume = numpy.concatenate([[0.0], numpy.cumsum(rates * numpy.diff(times))])
    return numpy.diff(numpy.interp(edges, times, volume)) / numpy.diff(edges)


def _flash_rate(trace: Trace, edges: numpy.ndarray) -> numpy.ndarray | None:
    """Spread over its span, from the "offset+length" that a storage span tells."""
    moved = numpy.zeros(len(edges))
    found = False
    reads = ((begin, duration, *detail.rpartition("+")[1:]) for _, _, _, begin, duration, detail in of_group(trace.span_rows, "storage"))
    lengths = ((begin, max(duration, 1e-9), int(length)) for begin, duration, plus, length in reads if plus and length.isdigit())
    while part := list(itertools.islice(lengths, 4_000)):
        found = True
        begins, durations, bytes_ = numpy.array(part, float).T
        moved += bytes_ @ numpy.clip((edges - begins[:, None]) / durations[:, None], 0, 1)
    return numpy.diff(moved) / numpy.diff(edges) / 1e3 if found else None
