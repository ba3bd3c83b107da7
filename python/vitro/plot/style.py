"""What all pictures have in common: fonts, colours, sizes, light and dark. No pyplot: a library must not own a window."""
import contextlib
import contextvars
import functools
import io
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..base.whole_files import in_place
from ..errors import ConfigError

HOST, SIM = "#0f766e", "#b45309"
MACHINE_COLORS = {"host": HOST, "sim": SIM}
INK, FAINT, GRID = "#1f2933", "#66727f", "#e4e7eb"
WORK = ["#2f6f9f", "#e0915a", "#5a9f68", "#8f6bb3", "#c8a33a", "#5aa9b5", "#b5596f"]
OPERATIONS = dict(zip(("matmul", "attention", "rms_norm", "glu", "add", "rope", "kv_append"), WORK))
REGIONS = dict(zip(("fixed", "hot", "cold", "kv", "activation", "staging", "runtime"), WORK))
OTHER, READ, WRITE = "#aab4bd", "#c0392b", "#8e2a20"
# The same work has the same colour in every picture.
COLORS = OPERATIONS | {"page_fault": "#5b6472", "read": READ, "write": WRITE}
# Of paper, text, quieter text and lines; the colours of work are the same on both, but for a few that dark paper would swallow.
PAPERS = {"light": {"paper": "#ffffff", "ink": INK, "faint": FAINT, "grid": GRID},
          "dark": {"paper": "#12181f", "ink": "#e6ebf0", "faint": "#9aa7b4", "grid": "#2b3440"}}
ON_DARK = {HOST: "#2aa79b", SIM: "#e08b3a", "#2f6f9f": "#5b9fd0", "#5b6472": "#64748b", READ: "#e2695c", WRITE: "#c45348"}
_theme: contextvars.ContextVar[str] = contextvars.ContextVar("theme", default="light")



class Picture(Figure):
    """A matplotlib figure that notebooks show, whether or not pyplot was imported there."""

    def _repr_png_(self) -> bytes:
        page = io.BytesIO()
        self.savefig(page, format="png", dpi=120)
        return page.getvalue()


P = ParamSpec("P")
R = TypeVar("R")


def paper() -> dict[str, str]:
    """The colours of the theme that counts now: paper, ink, faint and grid."""
    return PAPERS[_theme.get()]


@contextlib.contextmanager
def theme(name: str) -> Iterator[None]:
    """Pictures that are made within `with vitro.plot.theme("dark"):` are for that paper. name: "light", as without it, or "dark"."""
    if name not in PAPERS:
        raise ConfigError(f"theme: {name!r} (expected {' or '.join(PAPERS)})")
    before = _theme.set(name)
    try:
        yield
    finally:
        _theme.reset(before)


def style_of(name: str) -> Any:
    """matplotlib's settings for one of PAPERS."""
    on = PAPERS[name]
    return {
        "font.family": "sans-serif", "font.sans-serif": ["Inter", "Segoe UI", "Helvetica Neue", "Arial", "DejaVu Sans"], "font.size": 9.5,
        "axes.edgecolor": on["grid"], "axes.labelcolor": on["faint"], "axes.titlecolor": on["ink"], "axes.titlesize": 10.5,
        "axes.titleweight": "bold", "axes.titlelocation": "left", "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
        "axes.axisbelow": True, "grid.color": on["grid"], "grid.linewidth": 0.7, "xtick.color": on["faint"], "ytick.color": on["faint"],
        "xtick.major.size": 0, "ytick.major.size": 0, "xtick.minor.size": 0, "ytick.minor.size": 0, "text.color": on["ink"],
        "legend.frameon": False, "legend.fontsize": 8.5, "svg.fonttype": "none", "figure.facecolor": on["paper"],
        "axes.facecolor": on["paper"], "savefig.facecolor": "auto",
    }


STYLE: Any = style_of("light")


def styled(function: Callable[P, R]) -> Callable[P, R]:
    """A function that draws, in the theme that counts when it is called. Ticks that matplotlib makes later are set, too."""
    @functools.wraps(function)
    def draw(*args: P.args, **kwargs: P.kwargs) -> R:
        with rc_context(style_of(_theme.get())):
            made = function(*args, **kwargs)
            if isinstance(made, Figure):
                _finish(made)
            return made
    return draw


def _finish(figure: Figure) -> None:
    for ax in figure.axes:
        ax.tick_params(which="both", colors=paper()["faint"], length=0, grid_color=paper()["grid"], grid_linewidth=0.7)
    if _theme.get() == "dark":
        for artist in figure.findobj(match=lambda one: hasattr(one, "get_facecolor") or hasattr(one, "get_color")):
            _lighten(artist)


def _lighten(artist: Any) -> None:
    """Colours that dark paper would swallow become lighter ones of the same hue."""
    from matplotlib.colors import to_hex, to_rgba
    for get, put in (("get_facecolor", "set_facecolor"), ("get_edgecolor", "set_edgecolor"), ("get_color", "set_color")):
        if not (hasattr(artist, get) and hasattr(artist, put)):
            continue
        color = getattr(artist, get)()
        try:
            one = to_rgba(color if isinstance(color, str) or len(color) != 1 else color[0])
        except (ValueError, TypeError):
            continue  # a table of colours
        if other := ON_DARK.get(to_hex(one)):
            getattr(artist, put)((*to_rgba(other)[:3], one[3]))


def axes_of(rows: int = 1, height: float = 2.6, ratios: Sequence[float] | None = None, **options: Any) -> tuple[Figure, Sequence[Axes]]:
    figure = Picture(figsize=(9.6, height), layout="constrained")
    axes: Any = figure.subplots(rows, 1, squeeze=False, height_ratios=ratios, **options)
    return figure, axes[:, 0]


def kinds() -> Iterator[tuple[str, str]]:
    """Colours and markers for kinds of points, all different for a while."""
    return ((color, marker) for marker in itertools.cycle("osD^v") for color in WORK)


def region_order(name: str) -> tuple[int, str]:
    return list(REGIONS).index(name) if name in REGIONS else len(REGIONS), name


def save(figure: Figure, path: str | os.PathLike[str], *, dots_per_inch: float = 160) -> list[Path]:
    """Writes a picture. path: ends in .svg or .png, or has no ending: then both are written. Equal pictures give equal bytes.
    dots_per_inch: of the PNG. -> the files."""
    wanted = Path(path)
    if wanted.suffix not in ("", ".svg", ".png"):
        raise ConfigError(f"{wanted}: ends in {wanted.suffix} (expected .svg, .png, or nothing for both)")
    paths = [wanted] if wanted.suffix else [wanted.with_suffix(".svg"), wanted.with_suffix(".png")]
    for one in paths:
        one.parent.mkdir(parents=True, exist_ok=True)
        with rc_context({"svg.fonttype": "none", "svg.hashsalt": "vitro"}):
            with in_place(one) as unfinished:
                figure.savefig(unfinished, dpi=dots_per_inch,
                               metadata={"Date": None, "Creator": None} if one.suffix == ".svg" else {"Software": None})
    return paths
