"""What all pictures have in common: fonts, colours, sizes. No pyplot: a library must not own a window."""
import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from matplotlib import rc_context
from matplotlib.figure import Figure

HOST, SIM = "#0f766e", "#b45309"
MACHINE_COLORS = {"host": HOST, "sim": SIM}
INK, FAINT, GRID = "#1f2933", "#66727f", "#e4e7eb"
WORK = ["#2f6f9f", "#e0915a", "#5a9f68", "#8f6bb3", "#c8a33a", "#5aa9b5", "#b5596f"]
OPERATIONS = dict(zip(("matmul", "attention", "rms_norm", "glu", "add", "rope", "kv_append"), WORK))
REGIONS = dict(zip(("fixed", "hot", "cold", "kv", "activation", "staging", "runtime"), WORK))
OTHER, READ, WRITE = "#aab4bd", "#c0392b", "#8e2a20"
# The same work has the same colour in every picture.
COLORS = OPERATIONS | {"page_fault": "#5b6472", "read": READ, "write": WRITE}
STYLE: Any = {
    "font.family": "sans-serif", "font.sans-serif": ["Inter", "Segoe UI", "Helvetica Neue", "Arial", "DejaVu Sans"], "font.size": 9.5,
    "axes.edgecolor": GRID, "axes.labelcolor": FAINT, "axes.titlecolor": INK, "axes.titlesize": 10.5, "axes.titleweight": "bold",
    "axes.titlelocation": "left", "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "axes.axisbelow": True,
    "grid.color": GRID, "grid.linewidth": 0.7, "xtick.color": FAINT, "ytick.color": FAINT, "xtick.major.size": 0,
    "ytick.major.size": 0, "text.color": INK, "legend.frameon": False, "legend.fontsize": 8.5, "svg.fonttype": "none",
}

P = ParamSpec("P")
R = TypeVar("R")


def styled(function: Callable[P, R]) -> Callable[P, R]:
    @functools.wraps(function)
    def draw(*args: P.args, **kwargs: P.kwargs) -> R:
        with rc_context(STYLE):
            return function(*args, **kwargs)
    return draw


def axes_of(rows=1, height=2.6, ratios=None, **options):
    figure = Figure(figsize=(9.6, height), layout="constrained")
    return figure, figure.subplots(rows, 1, squeeze=False, height_ratios=ratios, **options)[:, 0]


def region_order(name):
    return list(REGIONS).index(name) if name in REGIONS else len(REGIONS), name
