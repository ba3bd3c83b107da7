"""How far a row is from a front."""
import random

import pytest
from vitro.base.dominance import behind, distance, front

WAYS = ["maximize", "minimize"]  # tokens/s and bytes, say
BEST = [[10.0, 4.0], [8.0, 2.0], [4.0, 1.0]]


def test_a_row_behind_the_front_is_told_by_what_it_lacks():
    assert behind([5, 4], BEST, WAYS) == [2.0, 2.0], "10 at 4, and 2 for 5 or more"
    assert distance([5, 4], BEST, WAYS) == pytest.approx(1.6), "(8, 2) has 1.6 times the first and half of the second"
    assert distance([8, 2], BEST, WAYS) == 1 and behind([8, 2], BEST, WAYS) == [1.0, 1.0]


def test_a_row_ahead_of_the_front_is_below_1():
    assert behind([20, 4], BEST, WAYS) == [0.5, None] and distance([20, 4], BEST, WAYS) == 0.5
    assert behind([4, 0.5], BEST, WAYS) == [None, 0.5]


def test_where_no_factor_says_anything_there_is_none():
    assert behind([5, 4], [], WAYS) == [None, None] and distance([5, 4], [], WAYS) is None
    assert behind([5, 0], BEST, WAYS) == [None, None] and distance([5, 0], BEST, WAYS) is None
    assert behind([0, 4], BEST, WAYS)[0] is None


@pytest.mark.parametrize("seed", range(20))
def test_a_distance_is_the_least_factor_that_no_row_beats_in_all(seed):
    rng = random.Random(seed)
    ways = [rng.choice(("maximize", "minimize")) for _ in range(3)]
    rows = [[rng.uniform(1, 9) for _ in ways] for _ in range(12)]
    best = [row for row, on_it in zip(rows, front(rows, ways)) if on_it]
    for row in rows:
        factor = distance(row, best, ways)
        assert factor == pytest.approx(1) if row in best else factor >= 1

        def beaten(by):
            better = [value * by if way == "maximize" else value / by for value, way in zip(row, ways)]
            return any(all(a > b if way == "maximize" else a < b for a, b, way in zip(other, better, ways)) for other in best)
        assert not beaten(factor * (1 + 1e-9)) and beaten(factor * (1 - 1e-9))
