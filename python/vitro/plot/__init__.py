"""Pictures of traces, results and studies, as matplotlib figures. `vitro.plot.save(figure, "a")` writes a.svg and a.png.

Within `with vitro.plot.theme("dark"):` they are made for dark paper.
"""
from .papers import published
from .results import bars, energy, regions, series
from .stages import stages
from .studies import hit_curve, overlap, pareto, predicted, roofline, tornado
from .style import save, theme
from .traces import activity, bandwidth, busy_share, gantt, memory

__all__ = ["activity", "bandwidth", "bars", "busy_share", "energy", "gantt", "hit_curve", "memory", "overlap", "pareto", "predicted",
           "published", "regions", "roofline", "save", "series", "stages", "theme", "tornado"]


def __dir__() -> list[str]:
    return __all__
