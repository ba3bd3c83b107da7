"""Metrics against each other, with the points that no other one beats."""
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from ..base.dominance import front
from .results import axis_of
from .style import OTHER, WORK, Picture, paper, styled

if TYPE_CHECKING:
    import pandas

COSTS = {"latency_ms": "latency of an answer, ms", "energy_j": "energy of an answer, J"}


@styled
def accuracy(frame: "pandas.DataFrame") -> Figure:
    """The table of `vitro.tasks`: a line for each method over its numbers of samples, one panel for latency and one for energy where it is
    known. Bars are one standard error; the grey steps are the front."""
    costs = [key for key in COSTS if frame[key].notna().all()]
    figure = Picture(figsize=(9.6, 3.6), layout="constrained")
    axes = figure.subplots(1, max(len(costs), 1), sharey=True, squeeze=False)[0]
    samples = next((key for key in frame.columns if key.endswith(".samples")), None)
    names = frame["point"].str.replace(r", samples \S+$", "", regex=True) if samples else frame["point"]
    for ax, cost in zip(axes, costs):
        best = frame[front(frame[[cost, "accuracy"]].to_numpy().tolist(), ("minimize", "maximize"))].sort_values(cost)
        ax.step(best[cost], best["accuracy"], where="post", color=paper()["faint"], linewidth=5, alpha=0.25, label="front")
        for color, (name, part) in zip(WORK * 20, frame.groupby(names, sort=False)):
            ax.errorbar(part[cost], part["accuracy"], part["standard_error"], fmt="o-", color=color, markersize=4, capsize=2, label=name)
            for _, row in part.iterrows() if samples else ():
                ax.annotate(f"{row[samples]:g}", (row[cost], row["accuracy"]), xytext=(4, 5), textcoords="offset points", fontsize=8,
                            color=color)
        ax.set(xlabel=COSTS[cost], xlim=(0, None), ylim=(0, None))
        ax.yaxis.set_major_formatter(PercentFormatter(1))
    axes[0].set_ylabel(f"right answers of {frame['tasks'].iloc[0]}" + (" (numbers: samples)" if samples else ""))
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper right", ncols=4)
    return figure


@styled
def trials(frame: "pandas.DataFrame", objectives: Mapping[str, str], readings: Mapping[str, tuple[str, str, float]],
           compared: Sequence[Mapping[str, Any]] = ()) -> Figure:
    """The table of `vitro search`: its first objective over each other one, or over the trials where it is the only one.
    objectives: {metric: "maximize" or "minimize"}. readings: (label, unit, factor) of metrics that have some. compared: rows with `label`
    and the objectives, of points that are no part of the search."""
    first, *others = objectives
    ran = frame[frame[first].notna()]
    figure = Picture(figsize=(9.6, 3.4), layout="constrained")
    axes = figure.subplots(1, max(len(others), 1), sharey=True, squeeze=False)[0]
    named, factor = axis_of(first, readings.get(first))
    for ax, other in zip(axes, others or ["point"]):
        along, scale = axis_of(other, readings.get(other)) if others else ("trial", 1)
        for part, color, size, label in ((ran[~ran["feasible"]], OTHER, 3, "breaks a constraint"),
                                         (ran[ran["feasible"] & ~ran["front"]], WORK[0], 4, "is beaten by another"),
                                         (ran[ran["front"]], WORK[1], 6, "on the front")):
            ax.plot(part[other] * scale, part[first] * factor, "o", color=color, markersize=size, label=label if len(part) else None)
        for size, (color, row) in zip((11, 8, 6) + (5,) * 20, zip(WORK[2:] * 20, compared)):  # equal ones lie within each other
            if (height := row.get(first)) is None:
                continue
            if not others:
                ax.axhline(height * factor, color=color, linewidth=1.4, label=row["label"])
            elif (at := row.get(other)) is not None:
                ax.plot(at * scale, height * factor, "D", color=color, markersize=size, markeredgecolor=paper()["paper"],
                        label=row["label"])
        ax.set_xlabel(along)
    axes[0].set(ylabel=named, ylim=(0, None))
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper right", ncols=6)
    return figure
