"""Which of several results no other one beats (the Pareto front)."""
from collections.abc import Sequence


def front(values: Sequence[Sequence[float] | None], ways: Sequence[str]) -> list[bool]:
    """Which rows no other row dominates: is as good everywhere and better somewhere. None: a row that does not count.
    ways: "maximize" or "minimize" of each column."""
    signs = [1 if way == "minimize" else -1 for way in ways]
    costs = [None if row is None else [sign * value for sign, value in zip(signs, row)] for row in values]

    def dominated(cost: list[float]) -> bool:
        return any(other is not None and other != cost and all(a <= b for a, b in zip(other, cost)) for other in costs)
    return [cost is not None and not dominated(cost) for cost in costs]
