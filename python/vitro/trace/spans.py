"""What spans of a trace are called, and how long some of them take together."""
import math
from collections.abc import Iterable
from typing import Any

Row = tuple[Any, ...]  # of a span, a counter or a flow
SYSTEM_WORK = ("issue I/O", "policy", "take result", "page_fault")  # spans of a core that are no kernel
STEPS = ("policy", "steps")  # group and track of the engine's steps, with layers and parts in them


def operation(name: str) -> str:
    """What kind of work a span is: its first word, "matmul" of "matmul blk.3.ffn_up"."""
    return name.split(" ", 1)[0].split("(", 1)[0] or name


class Union:
    """Length of the union of intervals, which come by their beginnings: overlapping spans of a track count once."""

    def __init__(self) -> None:
        self.total, self._reach = 0.0, -math.inf

    def add(self, begin: float, end: float) -> None:
        self.total += max(0.0, end - max(begin, self._reach))
        self._reach = max(self._reach, end)


def covered(intervals: Iterable[tuple[float, float]]) -> float:
    """Length of the union of (begin, end) intervals in any order."""
    union = Union()
    for begin, end in sorted(intervals):
        union.add(begin, end)
    return union.total
