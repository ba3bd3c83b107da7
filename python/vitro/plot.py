"""Pictures of traces and results, as matplotlib figures. No pyplot: a library must not own a window."""
import collections

import numpy
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from .trace import operation

HOST, SIM = "#0f766e", "#b45309"
MACHINE_COLORS = {"host": HOST, "sim": SIM}
_INK, _FAINT, _GRID = "#1f2933", "#66727f", "#e4e7eb"
_WORK = ["#2f6f9f", "#e0915a", "#5a9f68", "#8f6bb3", "#c8a33a", "#5aa9b5", "#b5596f"]
_OPERATIONS = dict(zip(("matmul", "attention", "rms_norm", "glu", "add", "rope", "kv_append"), _WORK))
_REGIONS = dict(zip(("fixed", "hot", "cold", "kv", "activation", "staging", "runtime"), _WORK))
_OTHER, _READ, _WRITE = "#aab4bd", "#c0392b", "#8e2a20"
_STYLE = {
    "font.family": "sans-serif", "font.sans-serif": ["Inter", "Segoe UI", "Helvetica Neue", "Arial", "DejaVu Sans"], "font.size": 9.5,
    "axes.edgecolor": _GRID, "axes.labelcolor": _FAINT, "axes.titlecolor": _INK, "axes.titlesize": 10.5, "axes.titleweight": "bold",
    "axes.titlelocation": "left", "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "axes.axisbelow": True,
    "grid.color": _GRID, "grid.linewidth": 0.7, "xtick.color": _FAINT, "ytick.color": _FAINT, "xtick.major.size": 0,
    "ytick.major.size": 0, "text.color": _INK, "legend.frameon": False, "legend.fontsize": 8.5, "svg.fonttype": "none",
}


def _styled(function):
    def draw(*args, **kwargs):
        with rc_context(_STYLE):
            return function(*args, **kwargs)
    draw.__name__, draw.__doc__ = function.__name__, function.__doc__
    return draw


def _axes(rows=1, height=2.6, ratios=None, **options):
    figure = Figure(figsize=(9.6, height), layout="constrained")
    return figure, figure.subplots(rows, 1, squeeze=False, height_ratios=ratios, **options)[:, 0]


# The same work has the same colour in every picture.
_COLORS = _OPERATIONS | {"page_fault": "#5b6472", "read": _READ, "write": _WRITE}


@_styled
def gantt(traces, *, begin_us=None, end_us=None, groups=("units", "storage")):
    """What every unit and the flash did. traces: a Trace, or {title: Trace} to be put under one another.

    begin_us, end_us: the window, one for all, or {title: value}.
    """
    traces = traces if isinstance(traces, dict) else {"": traces}
    tracks = {title: _ordered(trace, groups) for title, trace in traces.items()}
    counts = [max(1, len(keys)) for keys in tracks.values()]
    figure, axes = _axes(len(traces), 0.9 + 0.75 * len(traces) + 0.3 * sum(counts), counts)
    shown = {}
    for ax, (title, trace) in zip(axes, traces.items()):
        begin, end = (_pick(bound, title, default) for bound, default in ((begin_us, 0.0), (end_us, trace.end_us)))
        _draw_tracks(ax, trace, tracks[title], begin, end, shown)
        ax.set_title(title)
    axes[-1].set_xlabel("milliseconds since the beginning of the window")
    names = sorted(shown, key=[*_COLORS, "other"].index)
    figure.legend([shown[name] for name in names], names, loc="outside lower center", ncols=10, handlelength=1, columnspacing=1.2)
    return figure


def _ordered(trace, groups):
    """Tracks by group, then cpu2 before cpu10."""
    def key(pair):
        digits = "".join(filter(str.isdigit, pair[1]))
        return groups.index(pair[0]), pair[1].rstrip("0123456789"), int(digits or 0)
    return sorted((pair for pair in trace.tracks() if pair[0] in groups), key=key)


def _draw_tracks(ax, trace, tracks, begin, end, shown):
    bars = collections.defaultdict(list)
    for group, track, name, at, duration, _ in trace.span_rows:
        if (group, track) in tracks and at < end and at + duration > begin:
            left = max(at, begin)
            bars[tracks.index((group, track)), operation(name)].append(((left - begin) / 1e3, (min(at + duration, end) - left) / 1e3))
    crowded = sum(map(len, bars.values())) > 4000
    for (row, kind), extents in bars.items():
        color = _COLORS.get(kind, _OTHER)
        patch = ax.broken_barh(extents, (row - 0.36, 0.72), facecolors=color, linewidth=0, rasterized=crowded)
        shown.setdefault(kind if kind in _COLORS else "other", patch)
    ax.set_xlim(0, (end - begin) / 1e3)
    ax.set_ylim(len(tracks) - 0.5, -0.5)
    ax.set_yticks(range(len(tracks)), [track for _, track in tracks])
    ax.grid(axis="y", visible=False)


def _pick(bound, title, default):
    value = bound.get(title) if isinstance(bound, dict) else bound
    return default if value is None else value


@_styled
def activity(traces, *, bins=240, groups=("units", "storage")):
    """How busy each track is over time, as a share of each bin. traces: a Trace or {title: Trace}."""
    traces = traces if isinstance(traces, dict) else {"": traces}
    figure, axes = _axes(len(traces), 0.5 + 1.5 * len(traces))
    for ax, (title, trace) in zip(axes, traces.items()):
        edges = numpy.linspace(0, max(trace.end_us, 1e-9), bins + 1)
        units, lines = iter(_WORK), []
        for group, track in _ordered(trace, groups):
            color = _READ if group == "storage" else next(units, _OTHER)
            share = busy_share(trace, group, track, edges)
            lines += ax.plot(edges[:-1] / 1e3, 100 * share, color=color, linewidth=1.1, label=track, drawstyle="steps-post")
            if group == "storage":
                ax.fill_between(edges[:-1] / 1e3, 100 * share, color=color, alpha=0.13, step="post", linewidth=0)
        ax.set(title=title, ylabel="% busy", ylim=(0, 104), xlim=(0, edges[-1] / 1e3))
        ax.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=8, handlelength=1.2, borderaxespad=0)
    axes[-1].set_xlabel("milliseconds")
    return figure


def busy_share(trace, group, track, edges):
    """Share of each bin between `edges` (microseconds) that the track was busy; overlapping spans count once."""
    rows = sorted((row[3], row[3] + row[4]) for row in trace.span_rows if (row[0], row[1]) == (group, track))
    merged = []
    for begin, end in rows:
        if merged and begin <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([begin, end])
    if not merged:
        return numpy.zeros(len(edges) - 1)
    begins, ends = numpy.array(merged).T
    done = numpy.concatenate([[0.0], numpy.cumsum(ends - begins)])
    # Busy time up to x: the whole intervals before it and the part of the one that it cuts.
    index = numpy.searchsorted(begins, edges, side="right")
    last = numpy.maximum(index - 1, 0)
    until = numpy.where(index == 0, 0.0, done[last] + numpy.clip(edges - begins[last], 0, ends[last] - begins[last]))
    return numpy.diff(until) / numpy.diff(edges)


def _region_order(name):
    return list(_REGIONS).index(name) if name in _REGIONS else len(_REGIONS), name


_RATES = ("dram", "bandwidth")  # counters of the group "memory" that are GB/s; the others are bytes


@_styled
def memory(trace, *, budget_bytes=None):
    """Bytes per region over time, stacked; None if the trace has no such counters."""
    rows = [row for row in trace.counter_rows if row[0] == "memory" and not row[1].endswith(_RATES)]
    if not rows:
        return None
    names = list(dict.fromkeys(row[1] for row in rows))
    times = sorted({0.0, trace.end_us, *(row[2] for row in rows)})
    position = {at: i for i, at in enumerate(times)}
    values = numpy.full((len(names), len(times)), numpy.nan)
    for _, name, at, value in rows:
        values[names.index(name), position[at]] = value / 2 ** 20
    for series in values:  # a counter keeps its value until the next one
        kept = 0.0
        for i, value in enumerate(series):
            kept = series[i] = kept if numpy.isnan(value) else value
    figure, (ax,) = _axes(height=2.7)
    at = numpy.array(times) / 1e3
    floor = numpy.zeros(len(times))
    for name, series in sorted(zip(names, values), key=lambda item: _region_order(item[0])):
        color = _REGIONS.get(name, _OTHER)
        ax.fill_between(at, floor, floor + series, step="post", color=color, alpha=0.9, linewidth=0, label=name)
        floor = floor + series
    if budget_bytes:
        ax.axhline(budget_bytes / 2 ** 20, color=_READ, linewidth=1.2, linestyle=(0, (4, 3)))
        ax.annotate("budget", (at[-1], budget_bytes / 2 ** 20), (0, 3), textcoords="offset points", ha="right", color=_READ, fontsize=8.5)
    ax.set(ylabel="MiB", xlabel="milliseconds", xlim=(0, at[-1]), ylim=(0, None))
    figure.legend(loc="outside lower center", ncols=8, handlelength=1, columnspacing=1.4)
    return figure


@_styled
def bandwidth(trace, *, bins=240):
    """DRAM and flash GB/s over time; None if the trace tells neither."""
    edges = numpy.linspace(0, max(trace.end_us, 1e-9), bins + 1)
    names = dict.fromkeys(row[1] for row in trace.counter_rows if row[0] == "memory" and row[1].endswith(_RATES))
    series = {"DRAM" if name == "dram" else name: _mean_rate(trace, name, edges) for name in names}
    flash = _flash_rate(trace, edges)
    if flash is not None:
        series["flash"] = flash
    if not series:
        return None
    figure, axes = _axes(len(series), 0.6 + 1.3 * len(series), sharex=True)
    for ax, (label, values), color in zip(axes, series.items(), (_WORK[0], _READ, _WORK[2], _WORK[3])):
        ax.fill_between(edges[:-1] / 1e3, values, step="post", color=color, alpha=0.8, linewidth=0)
        ax.set(ylabel="GB/s", title=label, xlim=(0, edges[-1] / 1e3), ylim=(0, None))
        ax.yaxis.set_major_locator(MaxNLocator(4))
    axes[-1].set_xlabel("milliseconds")
    return figure


def _mean_rate(trace, name, edges):
    rows = [row for row in trace.counter_rows if row[0] == "memory" and row[1] == name]
    times = numpy.array([0.0, *(row[2] for row in rows), trace.end_us])
    rates = numpy.array([0.0, *(row[3] for row in rows)])
    volume = numpy.concatenate([[0.0], numpy.cumsum(rates * numpy.diff(times))])
    return numpy.diff(numpy.interp(edges, times, volume)) / numpy.diff(edges)


def _flash_rate(trace, edges):
    """Spread over its span, from the "offset+length" that a storage span tells."""
    moved = numpy.zeros(len(edges))
    found = False
    for group, _, _, begin, duration, detail in trace.span_rows:
        length = detail.rpartition("+")[2]
        if group == "storage" and "+" in detail and length.isdigit():
            found = True
            moved += int(length) * numpy.clip((edges - begin) / max(duration, 1e-9), 0, 1)
    return numpy.diff(moved) / numpy.diff(edges) / 1e3 if found else None


@_styled
def bars(results, metric, *, label=None, scale=1.0):
    """Horizontal bars to compare runs. results: {case: {machine: Result}} or {case: Result}."""
    groups = {case: entry if isinstance(entry, dict) else {entry.machine: entry} for case, entry in results.items()}
    machines = list(dict.fromkeys(machine for group in groups.values() for machine in group))
    figure, (ax,) = _axes(height=0.9 + 0.36 * len(machines) * len(groups))
    thickness = 0.8 / len(machines)
    for i, machine in enumerate(machines):
        for row, group in enumerate(groups.values()):
            value = group[machine].metric(metric) if machine in group else None
            if value is None:
                continue
            y = row + (i - (len(machines) - 1) / 2) * thickness
            ax.barh(y, value * scale, thickness * 0.86, color=MACHINE_COLORS.get(machine, _WORK[0]))
            ax.annotate(f"{value * scale:,.3g}" if abs(value * scale) < 1000 else f"{value * scale:,.0f}", (value * scale, y), (4, 0),
                        textcoords="offset points", va="center", fontsize=8.5)
    ax.set_yticks(range(len(groups)), list(groups))
    ax.set_ylim(len(groups) - 0.5, -0.5)
    ax.grid(axis="y", visible=False)
    ax.margins(x=0.1)
    ax.set_xlabel(label or metric)
    handles = [ax.barh(0, 0, color=MACHINE_COLORS.get(machine, _WORK[0])) for machine in machines]
    figure.legend(handles, machines, loc="outside upper right", ncols=len(machines), handlelength=1)
    return figure


@_styled
def regions(results):
    """Peak bytes by region, one stacked bar per case, the budget as a line. results: {case: Result}."""
    names = sorted({name for result in results.values() for name in result.get("peak_memory") or {}}, key=_region_order)
    figure, (ax,) = _axes(height=1.1 + 0.42 * len(results))
    left = numpy.zeros(len(results))
    for name in names:
        sizes = numpy.array([(result.get("peak_memory") or {}).get(name, 0) for result in results.values()]) / 2 ** 20
        ax.barh(range(len(results)), sizes, 0.6, left=left, color=_REGIONS.get(name, _OTHER), label=name)
        left += sizes
    for row, result in enumerate(results.values()):
        budget = result.budget_bytes
        if budget:
            ax.plot([budget / 2 ** 20] * 2, [row - 0.42, row + 0.42], color=_READ, linewidth=2)
    ax.set_yticks(range(len(results)), list(results))
    ax.set_ylim(len(results) - 0.5, -0.5)
    ax.grid(axis="y", visible=False)
    ax.set_xlabel("MiB")
    figure.legend(loc="outside lower center", ncols=8, handlelength=1, columnspacing=1.4)
    return figure


@_styled
def series(frame, keys, metric, reading=None):
    """A sweep's metric: a line per combination of the other keys if some key is a number, bars per point otherwise.

    frame: the table of `vitro.sweep`. keys: the swept keys, or ["label"]. reading: (label, unit, factor).
    """
    label, unit, factor = reading or (metric, "", 1)
    if "bytes" in metric:
        unit, factor = "MiB", 2 ** -20
    shown = frame[frame[metric].notna()]
    numeric = [key for key in keys if _numbers(shown[key]) is not None and shown[key].nunique() > 2]
    if not numeric:
        present = [row.dropna() for _, row in shown[keys].iterrows()]
        cases = [", ".join(map(str, row)) for row in present]
        figure, (ax,) = _axes(height=0.8 + 0.36 * len(cases))
        ax.barh(range(len(cases)), shown[metric] * factor, 0.62, color=[MACHINE_COLORS.get(m, _WORK[0]) for m in shown["machine"]])
        ax.set_yticks(range(len(cases)), cases)
        ax.set_ylim(len(cases) - 0.5, -0.5)
        ax.grid(axis="y", visible=False)
        ax.set_xlabel(f"{label}, {unit}" if unit else label)
        return figure
    axis, *rest = sorted(numeric, key=lambda key: -shown[key].nunique()) + [key for key in keys if key not in numeric]
    figure, (ax,) = _axes(height=3.0)
    groups = shown.groupby(rest, dropna=False, sort=False) if rest else [((), shown)]
    for color, (case, part) in zip(_WORK * 20, groups):
        order = numpy.argsort(_numbers(part[axis]), kind="stable")
        ax.plot(_numbers(part[axis])[order], part[metric].to_numpy()[order] * factor, "o-", color=color, markersize=4,
                label=", ".join(f"{key} {value}" for key, value in zip(rest, case)))
    ax.set(xlabel=f"{axis} ({_suffix(shown[axis])})" if _suffix(shown[axis]) else axis, ylabel=f"{label}, {unit}" if unit else label,
           ylim=(0, None))
    if rest:
        ax.legend(ncols=3)
    return figure


def _numbers(values):
    """The numbers of a column such as [4 MiB, 6 MiB] or [1, 2], if they share a unit; else None."""
    try:
        return numpy.array([float(str(value).removesuffix(_suffix(values))) for value in values])
    except ValueError:
        return None


def _suffix(values):
    units = {str(value).lstrip("0123456789.+-eE") for value in values}
    return units.pop().strip() if len(units) == 1 else ""
