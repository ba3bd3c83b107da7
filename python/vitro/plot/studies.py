"""Pictures of studies: what a budget buys, which parameter matters, where a roof is, and how well a prediction holds."""
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from ..errors import ConfigError
from ..trace.hot_experts import ALL, DECODED, UNSEEN
from .pareto import front
from .results import axis_of, numbers_of, with_unit
from .style import OTHER, READ, WORK, Picture, axes_of, kinds, paper, styled

if TYPE_CHECKING:
    import pandas

SIZES = {"B": 1.0, "KiB": 2.0 ** 10, "MiB": 2.0 ** 20, "GiB": 2.0 ** 30, "KB": 1e3, "MB": 1e6, "GB": 1e9}


def _need(frame: "pandas.DataFrame", columns: Sequence[str], may: Sequence[str] = ()) -> "pandas.DataFrame":
    """-> the table with these columns, and those of `may` that it has. A Study calls swept keys `point.KEY`. Raises ConfigError for a
    column that a table lacks."""
    known = {name: next((one for one in (name, f"point.{name}") if one in frame.columns), None) for name in (*columns, *may)}
    for name in columns:
        if known[name] is None:
            raise ConfigError(f"{name}: is not a column of the table (there are {', '.join(map(str, frame.columns))})")
    return frame.assign(**{name: frame[one] for name, one in known.items() if one is not None and one != name})


@styled
def hit_curve(frame: "pandas.DataFrame", budget: str, *, by: str | None = None, hits: str = "cache_hit_rate",
              bound: str = "belady_hit_rate") -> Figure:
    """Hit rate of the weight cache over its budget, a line for each value of `by`; dashed where the table has the optimal replacement's.

    frame: the table of `vitro.sweep` or of a Study. budget: the swept key, such as "memory.budget" (bytes with a unit) or
    "memory.ffn_in_dram" (a share). hits, bound: columns with shares from 0 to 1.
    """
    frame = _need(frame, [budget, hits, *([by] if by else [])], [bound])
    shown = frame[frame[hits].notna()]
    numbers, label = _sizes(shown[budget], budget)
    figure, (ax,) = axes_of(height=3.2)
    groups = shown.assign(_x=numbers).groupby(by, sort=False) if by else [("", shown.assign(_x=numbers))]
    bounds: dict[float, float] = {}
    for color, (name, part) in zip(WORK * 20, groups):
        part = part.sort_values("_x")
        ax.plot(part["_x"], part[hits], "o-", color=color, markersize=4, label=str(name) or None)
        if bound in part.columns and part[bound].notna().any():
            if by is None:
                ax.plot(part["_x"], part[bound], "--", color=paper()["faint"], linewidth=1.3, label="optimal replacement")
            else:
                ax.plot(part["_x"], part[bound], "--", color=color, linewidth=1, alpha=0.8)
                bounds = {0: 0}
    if bounds:
        ax.plot([], [], "--", color=paper()["faint"], label="optimal replacement on the same accesses")
    ax.set(xlabel=label, ylabel="hits of the weight cache", ylim=(0, 1.02))
    ax.yaxis.set_major_formatter(PercentFormatter(1))
    if label.endswith("(%)"):
        ax.set_xlim(0, 100)
    if ax.get_legend_handles_labels()[0]:
        figure.legend(loc="outside upper right", ncols=4, handlelength=1.6)
    return figure


def _sizes(values: "pandas.Series", key: str) -> tuple[numpy.ndarray, str]:
    """Budgets of several units are brought to one. -> (numbers, the text of their axis)"""
    numbers = numbers_of(values)
    if numbers is not None:
        return numbers, with_unit(key, values)
    found = []
    for value in values:
        number, _, unit = str(value).partition(" ")
        try:
            found.append(float(number) * SIZES[unit] / 2 ** 20)
        except (ValueError, KeyError):
            raise ConfigError(f"{key}: {value!r} is no size (expected such as 6 MiB, or numbers of one unit)") from None
    return numpy.array(found), f"{key} (MiB)"


@styled
def tornado(frame: "pandas.DataFrame", *, metric: str = "", top: int = 12, change: str = "20 %") -> Figure:
    """How far a metric moves when a parameter does, the furthest on top.

    frame, one of: columns `parameter`, `low` and `high`, relative changes of the metric (0.03: 3 % more) with the parameter lowered and
    raised by `change`, as `vitro characterize --sensitivity` has them; or columns `parameter` and `effect`, as `vitro.sensitivity` has them
    by the method of Morris. An effect is a mean of absolute changes, so it has no direction: its bar begins at 0, with its `interval`.
    metric: of a table of several metrics (column `metric`), which one; else a text for the axis.
    """
    if "metric" in frame.columns:
        names = list(dict.fromkeys(frame["metric"]))
        if len(names) > 1 and metric not in names or len(names) == 1 and metric not in ("", *names):
            raise ConfigError(f"metric: {metric!r} (expected one of the table: {', '.join(names)})")
        metric = metric or "".join(names)
        frame = frame[frame["metric"] == metric]
    ways = ["effect"] if "effect" in frame.columns else ["low", "high"]
    _need(frame, ["parameter", *ways])
    reaches = frame[ways].abs().max(axis=1)
    shown = frame.assign(_reach=reaches).sort_values("_reach", ascending=False, kind="stable").head(top)
    figure, (ax,) = axes_of(height=1.0 + 0.3 * max(1, len(shown)))
    rows = range(len(shown))
    texts = {"low": f"parameter {change} lower", "high": f"parameter {change} higher", "effect": "mean absolute effect of the whole band"}
    for column, color in zip(ways, WORK):
        bars = {"xerr": shown["interval"] * 100, "ecolor": paper()["ink"]} if column == "effect" and "interval" in shown.columns else {}
        ax.barh(rows, shown[column] * 100, 0.62, color=color, label=texts[column], **bars)
    ax.axvline(0, color=paper()["faint"], linewidth=1)
    ends = shown["_reach"] + (shown["interval"].fillna(0) if "effect" in ways and "interval" in shown.columns else 0)
    reach = max(0.05, 100 * float(ends.max()) if len(shown) else 0)
    ax.set_xlim(0 if "effect" in ways else -1.1 * reach, 1.1 * reach)
    ax.set_yticks(rows, list(shown["parameter"]))
    ax.set_ylim(max(1, len(shown)) - 0.5, -0.5)
    ax.grid(axis="y", visible=False)
    ax.set_xlabel(f"change of {metric or 'the metric'}, %")
    figure.legend(loc="outside upper right", ncols=2, handlelength=1)
    return figure


@styled
def predicted(frame: "pandas.DataFrame", *, measured: str = "measured", prediction: str = "predicted", by: str | None = None,
              unit: str = "", within: float = 0.10) -> Figure:
    """Predicted over measured on logarithmic axes: on the line the prediction is right, the band is `within` of it.

    frame: one row per experiment, with columns of positive numbers in one unit; `low` and `high`, where there are some, are the ends of
    a prediction's error band. by: the column that names a row's kind. The mean absolute relative error stands in the corner.
    """
    _need(frame, [measured, prediction, *([by] if by else [])])
    shown = frame[(frame[measured] > 0) & (frame[prediction] > 0)]
    figure = Picture(figsize=(5.6, 5.2), layout="constrained")
    ax = figure.subplots()
    if shown.empty:
        return figure
    for (color, marker), (name, part) in zip(kinds(), shown.groupby(by, sort=False) if by else [("", shown)]):
        bars = None
        if {"low", "high"} <= set(part.columns):
            bars = [(part[prediction] - part["low"]).clip(lower=0).fillna(0), (part["high"] - part[prediction]).clip(lower=0).fillna(0)]
        ax.errorbar(part[measured], part[prediction], yerr=bars, fmt=marker, markersize=5, color=color, elinewidth=1, alpha=0.85,
                    label=str(name) or None)
    ends = numpy.array([shown[[measured, prediction]].min().min() / 1.3, shown[[measured, prediction]].max().max() * 1.3])
    ax.plot(ends, ends, color=paper()["faint"], linewidth=1)
    ax.fill_between(ends, (1 - within) * ends, (1 + within) * ends, color=paper()["faint"], alpha=0.15, linewidth=0)
    error = float((shown[prediction] / shown[measured] - 1).abs().mean())
    ax.annotate(f"mean error {error:.1%} of {len(shown)}, band ±{within:.0%}", (0.03, 0.97), xycoords="axes fraction", va="top",
                color=paper()["ink"])
    suffix = f", {unit}" if unit else ""
    ax.set(xscale="log", yscale="log", xlim=ends, ylim=ends, xlabel=f"measured{suffix}", ylabel=f"predicted{suffix}")
    if by:
        figure.legend(loc="outside lower center", ncols=4, handlelength=1)
    return figure


@styled
def roofline(frame: "pandas.DataFrame", roofs: Mapping[str, tuple[float, float]], *, by: str | None = None) -> Figure:
    """Operations per second over operations per byte, under the roofs of memory and arithmetic.

    frame: one row per kernel, with the columns `intensity` (operations per byte of DRAM traffic) and `operations_per_s`; a
    multiply-add is two operations. roofs: {name: (most operations per second, most bytes per second)}, such as one per unit.
    by: the column that names a row's kind.
    """
    _need(frame, ["intensity", "operations_per_s", *([by] if by else [])])
    figure, (ax,) = axes_of(height=3.8)
    lowest, highest = frame["intensity"].min() / 2, frame["intensity"].max() * 2
    for (name, (operations, byte_rate)), style in zip(roofs.items(), ["-", "--", ":", "-."] * 5):
        x = numpy.geomspace(min(lowest, operations / byte_rate / 2), max(highest, operations / byte_rate * 2), 200)
        ax.plot(x, numpy.minimum(operations, x * byte_rate) / 1e9, style, color=READ if style == "-" else OTHER, linewidth=1.4, label=name)
    for (color, marker), (kind, part) in zip(kinds(), frame.groupby(by, sort=False) if by else [("", frame)]):
        ax.plot(part["intensity"], part["operations_per_s"] / 1e9, marker, color=color, markersize=5, label=str(kind) or None)
    ax.set(xscale="log", yscale="log", xlabel="operations per byte", ylabel="GOP/s")
    figure.legend(loc="outside upper right", ncols=4, handlelength=1.6)
    return figure


@styled
def pareto(frame: "pandas.DataFrame", objectives: Mapping[str, str], *, by: str | None = None,
           readings: Mapping[str, tuple[str, str, float]] | None = None) -> Figure:
    """Two metrics against each other, with the front of those that no other point beats in one without losing in the other.

    frame: the table of `vitro.sweep` or of a Study. objectives: {metric: "maximize" or "minimize"}, the first one upwards, the second one
    to the right. by: the column that names a point's kind. readings: {metric: (label, unit, factor)}.
    """
    if len(objectives) != 2 or not set(objectives.values()) <= {"maximize", "minimize"}:
        raise ConfigError(f"objectives: {dict(objectives)} (expected two metrics, each with maximize or minimize)")
    up, right = objectives
    frame = _need(frame, [up, right, *([by] if by else [])])
    shown = frame[frame[up].notna() & frame[right].notna()]
    (y, y_factor), (x, x_factor) = (axis_of(name, (readings or {}).get(name)) for name in (up, right))
    figure, (ax,) = axes_of(height=3.6)
    best = shown[front(shown[[up, right]].to_numpy().tolist(), list(objectives.values()))].sort_values([right, up])
    # What a point on the front reaches holds until the next one: to the right where less is better, to the left where more is.
    where: Literal["pre", "post"] = "post" if objectives[right] == "minimize" else "pre"
    ax.step(best[right] * x_factor, best[up] * y_factor, where=where, color=paper()["faint"], linewidth=5, alpha=0.3, label="front")
    for (color, marker), (name, part) in zip(kinds(), shown.groupby(by, sort=False) if by else [("", shown)]):
        ax.plot(part[right] * x_factor, part[up] * y_factor, marker, color=color, markersize=4, alpha=0.75, label=str(name) or None)
    ax.plot(best[right] * x_factor, best[up] * y_factor, "o", markerfacecolor="none", markeredgecolor=paper()["ink"], markersize=7)
    ax.set(xlabel=x, ylabel=y)
    figure.legend(loc="outside upper right", ncols=5, handlelength=1.2)
    return figure


@styled
def overlap(frame: "pandas.DataFrame") -> Figure:
    """Overlap@K over K, of each recording's halves and each two recordings: the mean over layers; by chance dashed.

    frame: as `vitro.trace.hot_experts.overlaps` gives it.
    """
    figure, (axes,) = axes_of(height=3.4)
    pairs = frame.groupby(["calibrated_on", "asked_on", "kind", "tokens"], sort=False)
    for ((name, asked, kind, tokens), rows), (color, marker) in zip(pairs, kinds()):
        label = f"{name} and {asked}" if name != asked else f"{name}, halves" if kind == UNSEEN else f"{name}, {kind}"
        label += "" if tokens == ALL or kind == DECODED else f" ({tokens})"
        axes.plot(rows["k"], 100 * rows["mean"], color=color, marker=marker, markersize=5, linewidth=1.4, label=label)
    chance = frame.groupby("k")["chance"].first()
    axes.plot(chance.index, 100 * chance, color=OTHER, linestyle=(0, (4, 3)), linewidth=1.2, label="by chance")
    axes.set_xscale("log", base=2)
    axes.set_xticks(chance.index, [str(k) for k in chance.index])
    axes.set(xlabel="K, hottest experts of a layer", ylabel="% in common", ylim=(0, 104))
    figure.legend(loc="outside lower center", ncols=3, handlelength=1.6, columnspacing=1.4)
    return figure
