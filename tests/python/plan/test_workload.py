"""The planner's cache without a cache: what a step misses follows from how soon blocks are used again."""
import random

import pytest
from vitro.plan.workload import BatchWorkload

BUCKETS = ((200, 150, 0.95), (800, 200, 0.7))  # blocks, named in a step, chance that a named one is named again


def named_steps(count):
    """Sets of blocks: each is named again with its chance, and a silent one as often as keeps the number."""
    rng, now, steps = random.Random(1), set(), []
    for _ in range(count):
        following, first = set(), 0
        for blocks, named, again in BUCKETS:
            begins = named * (1 - again) / (blocks - named)
            following |= {first + i for i in range(blocks) if rng.random() < (again if first + i in now else begins)}
            first += blocks
        now = following
        steps.append(now)
    return steps


def workload(depth=12):
    """The same as the engine counts it: shares of named blocks by how many steps ago they were used last."""
    buckets, first = [], 0
    for blocks, named, again in BUCKETS:
        begins = named * (1 - again) / (blocks - named)
        reuse, silent = [0.0, named * again], named * (1 - again)
        for _ in range(2, depth + 1):
            reuse.append(silent * begins)
            silent *= 1 - begins
        reuse[0] = named - sum(reuse)
        used, quiet = [0.0], blocks - named
        for _ in range(depth):
            used.append(blocks - quiet)
            quiet *= 1 - begins
        buckets.append({"first": first, "neurons": blocks, "blocks": blocks, "named": named, "fired": named, "mostly": named,
                        "named_blocks": named, "reuse": reuse, "used_within": used})
        first += blocks
    return BatchWorkload([{"rows": 1, "buckets": buckets}])


def missed_by_step_lru(capacity, steps=400):
    """One layer under the eviction rule step_lru: what this step uses stays, a newcomer takes the place of the least recently used."""
    last, missed = {}, 0
    for at, named in enumerate(named_steps(steps)):
        missed += len(named - last.keys()) if at >= steps // 2 else 0
        for block in named & last.keys():
            last[block] = at
        for block in sorted(named - last.keys()):
            if len(last) == capacity:
                oldest = min(last, key=lambda held: (last[held], held))
                if last[oldest] == at:
                    break
                del last[oldest]
            last[block] = at
    return missed / (steps - steps // 2)


@pytest.mark.parametrize("capacity", [60, 150, 250, 330, 450, 700])
def test_misses_are_those_of_the_cache_on_both_sides_of_what_a_step_needs(capacity):
    found = sum(missing for missing, _ in workload().misses(0, capacity))
    assert found == pytest.approx(missed_by_step_lru(capacity), rel=0.15)


def test_more_room_never_misses_more_and_there_is_no_cliff():
    missed = [sum(missing for missing, _ in workload().misses(0, capacity)) for capacity in range(0, 1001, 10)]
    assert all(less <= more + 1e-9 for more, less in zip(missed, missed[1:]))
    assert max(more - less for more, less in zip(missed, missed[1:])) < 30
    assert missed[0] == pytest.approx(350) and missed[-1] == pytest.approx(0, abs=1e-6)


def test_a_growing_hot_region_finds_what_stays_of_the_cold_one():
    found = [workload().missing(0, 200, 0, capacity) for capacity in (0, 100, 340, 1000)]
    assert found == sorted(found, reverse=True) and found[0] == pytest.approx(200) and found[1] == pytest.approx(100, abs=5)
    assert found[-1] == pytest.approx(0, abs=1e-6)
