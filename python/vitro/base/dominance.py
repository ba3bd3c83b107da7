"""Which of several results no other one beats (the Pareto front), and how far a result is from such a front."""
from collections.abc import Sequence


def front(values: Sequence[Sequence[float] | None], ways: Sequence[str]) -> list[bool]:
    """Which rows no other row dominates: is as good everywhere and better somewhere. None: a row that does not count.
    ways: "maximize" or "minimize" of each column."""
    signs = [1 if way == "minimize" else -1 for way in ways]
    costs = [None if row is None else [sign * value for sign, value in zip(signs, row)] for row in values]

    def dominated(cost: list[float]) -> bool:
        return any(other is not None and other != cost and all(a <= b for a, b in zip(other, cost)) for other in costs)
    return [cost is not None and not dominated(cost) for cost in costs]


def behind(row: Sequence[float], best: Sequence[Sequence[float]], ways: Sequence[str]) -> list[float | None]:
    """For each column: the factor by which the row would have to improve there alone to reach the best row of a front that is not worse in
    the other columns; below 1 where it is ahead of that one. None where no row of the front is as good in the others, or where a value is
    not above 0, so that no factor says anything."""
    found: list[float | None] = []
    for column in range(len(ways)):
        rivals = [other for other in best if all(not _better(row[at], other[at], ways[at]) for at in range(len(ways)) if at != column)]
        factors = [_factor(row[column], other[column], ways[column]) for other in rivals]
        known = [factor for factor in factors if factor is not None]
        found.append(max(known) if known and len(known) == len(factors) else None)
    return found


def distance(row: Sequence[float], best: Sequence[Sequence[float]], ways: Sequence[str]) -> float | None:
    """The smallest factor by which every column of the row would have to improve at once, so that no row of a front is better in all of
    them: 1 on the front, above 1 behind it, below 1 ahead of it. It is 1 / I(best, {row}), where I is the multiplicative epsilon indicator
    (Zitzler et al. 2003): the factor by which the front could get worse and still be as good as the row. None without a front, or where a
    value is not above 0."""
    each = [[_factor(value, other, way) for value, other, way in zip(row, rival, ways)] for rival in best]
    if not each or any(factor is None for factors in each for factor in factors):
        return None
    return max(min(factor for factor in factors if factor is not None) for factors in each)


def _better(value, other, way):
    return value < other if way == "minimize" else value > other


def _factor(value, other, way):
    """By which `value` would have to improve to be `other`."""
    if value <= 0 or other <= 0:
        return None
    return value / other if way == "minimize" else other / value
