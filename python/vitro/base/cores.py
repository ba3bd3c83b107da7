"""How many cores this process may really use: fewer than the machine has inside a container, a slice or a batch job."""
import os
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")


def usable_cores(groups: Path = _GROUPS, own: Path = Path("/proc/self/cgroup")) -> int:
    """At least 1: the cores of the process's affinity, and no more than the quota of its control groups (versions 1 and 2) pays for."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([available, *(int(quota) for quota in _quotas(groups, own))]))


def _quotas(groups, own):
    """-> cores per group from this process's own up to the root, of those that are limited."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            for folder in _upwards(groups, path):
                words = _words(folder / "cpu.max")
                if len(words) == 2 and words[0] != "max":
                    yield int(words[0]) / int(words[1])
        elif "cpu" in controllers.split(","):
            for folder in _upwards(groups / "cpu", path):
                quota, period = _words(folder / "cpu.cfs_quota_us"), _words(folder / "cpu.cfs_period_us")
                if quota and period and int(quota[0]) > 0:
                    yield int(quota[0]) / int(period[0])


def _upwards(root, path):
    folder = root / path.strip("/")
    return [folder, *(above for above in folder.parents if above == root or above.is_relative_to(root))]


def _words(file):
    try:
        return file.read_text().split()
    except OSError:
        return []
