"""Pictures of traces and results, as matplotlib figures."""
from .plot_results import bars, regions, series
from .plot_traces import activity, bandwidth, busy_share, gantt, memory

__all__ = ["activity", "bandwidth", "bars", "busy_share", "gantt", "memory", "regions", "series"]


def __dir__():
    return __all__
