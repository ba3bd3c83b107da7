"""Accuracy against what it costs, with the points that no other one beats."""
from typing import TYPE_CHECKING

from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from .style import FAINT, WORK, styled

if TYPE_CHECKING:
    import pandas

COSTS = {"latency_ms": "latency of an answer, ms", "energy_j": "energy of an answer, J"}


@styled
def accuracy(frame: "pandas.DataFrame") -> Figure:
    """The table of `vitro.tasks`: a line for each method over its numbers of samples, one panel for latency and one for energy where it is
    known. Bars are one standard error; the grey steps are the front."""
    costs = [key for key in COSTS if frame[key].notna().all()]
    figure = Figure(figsize=(9.6, 3.6), layout="constrained")
    axes = figure.subplots(1, max(len(costs), 1), sharey=True, squeeze=False)[0]
    samples = next((key for key in frame.columns if key.endswith(".samples")), None)
    names = frame["point"].str.replace(r", samples \S+$", "", regex=True) if samples else frame["point"]
    for ax, cost in zip(axes, costs):
        best = front(frame[cost], frame["accuracy"])
        ax.step(frame[cost].iloc[best], frame["accuracy"].iloc[best], where="post", color=FAINT, linewidth=5, alpha=0.25, label="front")
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


def front(costs: "pandas.Series", gains: "pandas.Series") -> list[int]:
    """-> positions of points that none is both cheaper and better than, from the cheapest on."""
    order = sorted(range(len(costs)), key=lambda i: (costs.iloc[i], -gains.iloc[i]))
    best: list[int] = []
    for i in order:
        if not best or gains.iloc[i] > gains.iloc[best[-1]]:
            best.append(i)
    return best
