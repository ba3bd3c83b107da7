"""Pictures of results: runs beside each other, and sweeps."""
import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize, to_hex
from matplotlib.figure import Figure

from ..errors import ConfigError
from .style import MACHINE_COLORS, OTHER, READ, REGIONS, WORK, Picture, axes_of, region_order, styled

if TYPE_CHECKING:
    import pandas


@styled
def bars(results: Mapping[str, Any], metric: str, *, label: str | None = None, scale: float = 1.0) -> Figure:
    """Horizontal bars to compare runs. results: {case: {machine: Result}} or {case: Result}."""
    groups = {case: entry if isinstance(entry, dict) else {entry.machine: entry} for case, entry in results.items()}
    machines = list(dict.fromkeys(machine for group in groups.values() for machine in group))
    figure, (ax,) = axes_of(height=0.9 + 0.36 * len(machines) * len(groups))
    thickness = 0.8 / len(machines)
    for i, machine in enumerate(machines):
        for row, group in enumerate(groups.values()):
            value = group[machine].metric(metric) if machine in group else None
            if value is None:
                continue
            y = row + (i - (len(machines) - 1) / 2) * thickness
            ax.barh(y, value * scale, thickness * 0.86, color=MACHINE_COLORS.get(machine, WORK[0]))
            ax.annotate(number_text(value * scale), (value * scale, y), (4, 0),
                        textcoords="offset points", va="center", fontsize=8.5)
    ax.set_yticks(range(len(groups)), list(groups))
    ax.set_ylim(len(groups) - 0.5, -0.5)
    ax.grid(axis="y", visible=False)
    ax.margins(x=0.1)
    ax.set_xlabel(label or metric)
    handles: list[Any] = [ax.barh(0, 0, color=MACHINE_COLORS.get(machine, WORK[0])) for machine in machines]
    figure.legend(handles, machines, loc="outside upper right", ncols=len(machines), handlelength=1)
    return figure


@styled
def regions(results: Mapping[str, Any]) -> Figure:
    """Peak bytes by region, one stacked bar per case, the budget as a line. results: {case: Result}."""
    names = sorted({name for result in results.values() for name in result.get("peak_memory") or {}}, key=region_order)
    figure, (ax,) = axes_of(height=1.1 + 0.42 * len(results))
    left = numpy.zeros(len(results))
    for name in names:
        sizes = numpy.array([(result.get("peak_memory") or {}).get(name, 0) for result in results.values()]) / 2 ** 20
        ax.barh(range(len(results)), sizes, 0.6, left=left, color=REGIONS.get(name, OTHER), label=name)
        left += sizes
    for row, result in enumerate(results.values()):
        budget = result.budget_bytes
        if budget:
            ax.plot([budget / 2 ** 20] * 2, [row - 0.42, row + 0.42], color=READ, linewidth=2)
    ax.set_yticks(range(len(results)), list(results))
    ax.set_ylim(len(results) - 0.5, -0.5)
    ax.grid(axis="y", visible=False)
    ax.set_xlabel("MiB")
    figure.legend(loc="outside lower center", ncols=8, handlelength=1, columnspacing=1.4)
    return figure


ENERGY = {"base": OTHER, "units": WORK[0], "dram": WORK[2], "flash": READ, "cores": WORK[0], "npu": WORK[1], "ane": WORK[1], "gpu": WORK[3]}
ENERGY_BY = {"part": "energy_parts_j", "kind": "energy_by_kind_j", "unit": "energy_by_unit_j"}
_LEGEND = 130  # characters that fit side by side


@styled
def energy(results: Mapping[str, Any], by: str = "part") -> Figure:
    """What the energy of a token went to, one stacked bar per case, in millijoules: the phone itself, its compute units, DRAM and flash.

    results: {case: Result} of simulations on a device with a power model. by: "part"; "kind", with cores, NPU, ANE and GPU apart; or
    "unit", with each core and engine apart. The energy is that of decoding; where one token alone was generated, of the prompt, per token
    of it. Raises ConfigError for a result without energy.
    """
    if by not in ENERGY_BY:
        raise ConfigError(f"energy: by {by!r} (expected one of: {', '.join(ENERGY_BY)})")
    figure, (ax,) = axes_of(height=1.1 + 0.42 * len(results))
    left = numpy.zeros(len(results))
    shares = {case: energy_of(case, result, by) for case, result in results.items()}
    colors = {part: color for part, color in ENERGY.items() if by != "unit" or part in ("dram", "flash", "base")}
    others = itertools.cycle(color for color in WORK if color not in colors.values())
    for part in dict.fromkeys(part for parts in shares.values() for part in parts):
        sizes = numpy.array([1e3 * parts.get(part, 0.0) for parts in shares.values()])
        ax.barh(range(len(results)), sizes, 0.6, left=left, color=colors.get(part) or next(others), label=part)
        left += sizes
    for row, total in enumerate(left):
        ax.annotate(number_text(total), (total, row), (4, 0), textcoords="offset points", va="center", fontsize=8.5)
    ax.set_yticks(range(len(results)), list(results))
    ax.set_ylim(len(results) - 0.5, -0.5)
    ax.margins(x=0.08)
    ax.grid(axis="y", visible=False)
    ax.set_xlabel("mJ per token")
    figure.legend(loc="outside upper right", ncols=8 if by == "unit" else 5, handlelength=1)
    return figure


def number_text(value: float) -> str:
    return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def energy_of(case: str, result: Any, by: str = "part") -> dict[str, float]:
    """-> {part: joules per token}; in sum the result's energy per token."""
    parts = result.metrics.get(ENERGY_BY[by])
    name = next((name for name in ("energy_j_per_token", "prefill_energy_j_per_token") if result.metric(name)), None)
    if not parts or name is None:
        raise ConfigError(f"{case}: has no energy (expected a simulation on a device with a `power:` block)")
    whole = sum(parts.values())
    return {part: joules / whole * result.metric(name) for part, joules in parts.items()}


@styled
def series(frame: "pandas.DataFrame", keys: Sequence[str], metric: str, reading: tuple[str, str, float] | None = None,
           over: str | None = None) -> Figure:
    """A sweep's metric: a line per combination of the other keys if some key is a number, bars per point otherwise. Where hardly two points
    share a line, as in a random design, or there are more lines than a legend can hold, a panel per key; but if these lines differ in one
    number alone, it is their shade.

    frame: the table of `vitro.sweep`. keys: the swept keys, or ["label"]. reading: (label, unit, factor). over: a key whose values are
    draws, such as "workload.seed": points that differ in it alone are one, their mean, with a bar of its two-sided 95 % t-interval.
    """
    named, factor = axis_of(metric, reading)
    shown = frame[frame[metric].notna()]
    if over is not None:
        keys = [key for key in keys if key != over]
        shown, named = _over_draws(shown, keys, metric, over), f"{named}\n(mean, 95 % interval)"
    numeric = [key for key in keys if numbers_of(shown[key]) is not None and shown[key].nunique() > 2]
    if not numeric:
        present = [row.dropna() for _, row in shown[keys].iterrows()]
        cases = [", ".join(map(str, row)) for row in present]
        figure, (ax,) = axes_of(height=0.8 + 0.36 * len(cases))
        ax.barh(range(len(cases)), shown[metric] * factor, 0.62, xerr=shown[_HALF] * factor if over else None,
                color=[MACHINE_COLORS.get(m, WORK[0]) for m in shown["machine"]])
        ax.set_yticks(range(len(cases)), cases)
        ax.set_ylim(len(cases) - 0.5, -0.5)
        ax.grid(axis="y", visible=False)
        ax.set_xlabel(named)
        return figure
    axis, *rest = sorted(numeric, key=lambda key: -shown[key].nunique()) + [key for key in keys if key not in numeric]
    groups = list(shown.groupby(rest, dropna=False, sort=False)) if rest else [((), shown)]
    import pandas
    many = len(groups) > 2 * len(WORK)
    shade, colors = None, WORK * 2
    if many and len(rest) == 1 and (numbers := numbers_of(pandas.Series([part[rest[0]].iloc[0] for _, part in groups]))) is not None:
        shade = ScalarMappable(Normalize(numbers.min(), numbers.max()), "cividis")
        colors = [to_hex(color) for color in shade.to_rgba(numbers)]
    if (len(groups) > len(WORK) and 2 * len(groups) > len(shown)) or (many and shade is None):
        return _scattered(shown, [axis, *rest], shown[metric] * factor, named)
    figure, (ax,) = axes_of(height=3.0)
    ends = [key.rpartition(".")[2] for key in rest]  # what a key is called in a legend, unless another one ends alike
    called = [end if ends.count(end) == 1 else key for end, key in zip(ends, rest)]
    longest = 0
    for color, (case, part) in zip(colors, groups):
        numbers = numpy.asarray(numbers_of(part[axis]))  # a column of numbers, or it would be none of the axes
        order = numpy.argsort(numbers, kind="stable")
        label = ", ".join(f"{key} {'–' if pandas.isna(value) else value}" for key, value in zip(called, case))
        longest = max(longest, len(label))
        values = part[metric].to_numpy()[order] * factor
        half = None if over is None else part[_HALF].to_numpy()[order] * factor
        ax.errorbar(numbers[order], values, half, fmt="o-" if shade is None else "-", capsize=3, color=color, markersize=4, label=label)
    ax.set(xlabel=with_unit(axis, shown[axis]), ylabel=named, ylim=(0, None))
    if shade is not None:
        figure.colorbar(shade, ax=ax, label=with_unit(rest[0], shown[rest[0]]))
    elif rest:
        figure.legend(loc="outside upper right", ncols=min(3, max(1, _LEGEND // (longest + 6))), handlelength=1)
    return figure


_HALF = "half of the interval"


def _over_draws(frame: "pandas.DataFrame", keys: Sequence[str], metric: str, over: str) -> "pandas.DataFrame":
    """A row per point of the keys: the mean of the metric over the draws, and half of its interval, 0 where there is one draw."""
    from scipy import stats
    if over not in frame.columns:
        raise ConfigError(f"over: {over} is no column of the table (expected a swept key, such as workload.seed)")
    points = frame.groupby([*keys, "machine"], dropna=False, sort=False)[metric].agg(["mean", "std", "count"]).reset_index()
    half = stats.t.ppf(0.975, (points["count"] - 1).clip(lower=1)) * points["std"] / points["count"] ** 0.5
    return points.rename(columns={"mean": metric}).assign(**{_HALF: half.fillna(0)})


def axis_of(metric: str, reading: tuple[str, str, float] | None = None) -> tuple[str, float]:
    """-> the text of an axis for a metric, and what its values are multiplied by. reading: (label, unit, factor)."""
    label, unit, factor = reading or (metric, "", 1)
    if "bytes" in metric:
        unit, factor = "MiB", 2 ** -20
    return f"{label}, {unit}" if unit else label, factor


def _scattered(shown: "pandas.DataFrame", keys: Sequence[str], values: "pandas.Series", named: str) -> Figure:
    figure = Picture(figsize=(9.6, 3.0), layout="constrained")
    axes = figure.subplots(1, len(keys), sharey=True, squeeze=False)[0]
    for ax, key in zip(axes, keys):
        numbers = numbers_of(shown[key])
        if numbers is None:
            names = sorted({str(value) for value in shown[key]})
            numbers = numpy.array([names.index(str(value)) for value in shown[key]])
            ax.set_xticks(range(len(names)), names)
            ax.set_xlim(-0.5, len(names) - 0.5)
        elif numbers.min() > 0 and numbers.max() > 20 * numbers.min():
            ax.set_xscale("log")
        ax.plot(numbers, values.to_numpy(), "o", color=WORK[0], markersize=4, alpha=0.7)
        ax.set_xlabel(with_unit(key, shown[key]))
    axes[0].set(ylabel=named, ylim=(0, None))
    return figure


def with_unit(key: str, values: "pandas.Series") -> str:
    """-> the text of an axis for a swept key whose values may share a unit."""
    return f"{key} ({_suffix(values)})" if _suffix(values) else key


def numbers_of(values: "pandas.Series") -> numpy.ndarray | None:
    """The numbers of a column such as [4 MiB, 6 MiB] or [1, 2], if they share a unit; else None."""
    suffix = _suffix(values)
    try:
        return numpy.array([float(str(value).removesuffix(suffix)) for value in values])
    except ValueError:
        return None


def _suffix(values: "pandas.Series") -> str:
    units = {str(value).lstrip("0123456789.+-eE") for value in values}
    return units.pop().strip() if len(units) == 1 else ""
