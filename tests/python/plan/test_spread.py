"""Hot shares by layer and expert: as many neurons as there may be, none that another FFN has more use for."""
import itertools
import random

import pytest
from vitro.plan.spread import spread, total


def tables(seed, ffns=4, sizes=6):
    """Times that fall ever more slowly and rise at last, as those of a layer do."""
    rng, found = random.Random(seed), {}
    for ffn in range(ffns):
        best, width = rng.uniform(0, 10 * sizes), rng.uniform(0.5, 3)
        found[ffn, -1] = [(10 * size, 1 + width * (10 * size - best) ** 2 * 1e-3) for size in range(sizes + 1)]
    return found


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("most", [0, 30, 70, 120, 200, 240])
def test_none_of_equal_sum_does_better(seed, most):
    found = tables(seed)
    chosen = spread(found, most)
    assert sum(chosen.values()) == most
    best = min(total(found, dict(zip(found, sizes))) for sizes in itertools.product(*([hot for hot, _ in rows] for rows in found.values()))
               if sum(sizes) == most)
    assert total(found, chosen) == pytest.approx(best, rel=1e-9)


def test_times_with_steps_in_them_stay_within_the_sum_too():
    rows = [(0, 3.0), (10, 3.0), (20, 1.0), (30, 0.9)]
    both = {(0, -1): rows, (1, -1): rows}
    chosen = spread(both, 30)
    assert sum(chosen.values()) <= 30 and total(both, chosen) == pytest.approx(3.9)
