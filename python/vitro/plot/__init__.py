"""Pictures of traces and results, as matplotlib figures."""
from .results import bars, regions, series
from .stages import stages
from .traces import activity, bandwidth, busy_share, gantt, memory

__all__ = ["activity", "bandwidth", "bars", "busy_share", "gantt", "memory", "regions", "series", "stages"]


def __dir__() -> list[str]:
    return __all__
