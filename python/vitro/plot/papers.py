"""Pictures of reproductions: what was published beside what was simulated."""
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from ..errors import ConfigError
from .results import number_text
from .style import SIM, axes_of, paper, styled


@styled
def published(rows: Sequence[Mapping[str, Any]], *, names: Mapping[str, str] | None = None, unit: str | None = None) -> Figure:
    """A bar for each simulated value, and a diamond where the published one is (a line, where that is a range or a bound).

    rows: of `vitro.reproduce(...)["rows"]`, all of one unit. A row without a published or a simulated value is left out, and so is one that
    is reserved for blind validation. names: {id: text} for the axis. unit: of the axis, else the rows' own.
    """
    shown = [row for row in rows if row["expected"] is not None and row["simulated"] is not None and row["status"] != "reserved"]
    units = {row["unit"] for row in shown}
    if len(units) > 1:
        raise ConfigError(f"rows of several units ({', '.join(sorted(units))}) have no common axis (expected rows of one)")
    figure, (ax,) = axes_of(height=1.1 + 0.42 * max(1, len(shown)))
    furthest = 0.0
    for at, row in enumerate(shown):
        ax.barh(at, row["simulated"], 0.56, color=SIM, label="simulated" if at == 0 else None)
        ends = row["expected"] if isinstance(row["expected"], list) else [row["expected"]] * 2
        ax.plot(ends, [at, at], "-", color=paper()["ink"], linewidth=1.6)
        ax.plot(ends, [at, at], "D", color=paper()["ink"], markersize=5, label="published" if at == 0 else None)
        right = max(row["simulated"], *ends)
        ax.annotate(number_text(row["simulated"]), (right, at), (8, 6), textcoords="offset points", va="center", fontsize=8.5)
        ax.annotate(f"published {' to '.join(number_text(end) for end in dict.fromkeys(ends))}", (right, at), (8, -6),
                    textcoords="offset points", va="center", fontsize=8.5, color=paper()["faint"])
        furthest = max(furthest, right)
    ax.set_yticks(range(len(shown)), [(names or {}).get(row["id"], row["id"]) for row in shown])
    ax.set_ylim(max(1, len(shown)) - 0.5, -0.5)
    ax.set_xlim(0, 1.25 * furthest or 1)
    ax.grid(axis="y", visible=False)
    ax.set_xlabel(unit or next(iter(units), ""))
    if shown:
        figure.legend(loc="outside upper right", ncols=2, handlelength=1)
    return figure
