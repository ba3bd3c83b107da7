"""The time that remains."""
import heapq

import pytest
from vitro.base.remaining import Remaining, spread


def at(*times):
    values = iter(times)
    return Remaining(lambda: next(values))


def test_what_was_kept_from_before_says_nothing_about_the_pace():
    left = at(100, 100, 104)
    assert left.seconds(50, 60) is None and left.seconds(50, 60) is None
    assert left.seconds(52, 60) == 16


def test_two_workers_halve_it():
    left = at(0, 3, 3, 6, 6)
    found = [left.seconds(done, 20) for done in range(5)]
    assert found[2] == 27 and found[4] == 24


def test_a_second_count_begins_anew():
    left = at(0, 5, 6, 8)
    left.seconds(0, 4), left.seconds(4, 4)
    assert left.seconds(0, 3) is None and left.seconds(1, 3) == 4


def test_texts():
    assert at(0, 1).text(0, 4) == ""
    for seconds, said in ((1, "about 9 s left"), (100, "about 15 min left"), (1000, "about 2.5 h left")):
        left = at(0, seconds)
        left.text(0, 10)
        assert left.text(1, 10) == said


def ends(seconds, workers):
    """When pieces end that are taken in this order."""
    free, found = [0.0] * workers, []
    for piece in seconds:
        found.append(heapq.heappop(free) + piece)
        heapq.heappush(free, found[-1])
    return sorted(found)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 60, 1000])
def test_an_order_has_each_piece_once_and_a_tenth_of_it_is_spread(count):
    order = spread(count)
    assert sorted(order) == list(range(count))
    tenth = sorted(order[:max(1, count // 10)])
    gaps = [after - before for before, after in zip(tenth, tenth[1:])]
    assert max(gaps, default=0) <= 3 * count / len(tenth)


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("seconds", [
    [0.4 + 0.02 * tokens for tokens in (4, 8, 16, 32, 64, 128) for _ in range(80)],
    [0.4 + 0.02 * tokens for _ in range(80) for tokens in (4, 8, 16, 32, 64, 128)],
    [(0.4 + 0.02 * tokens) * part for part in (1, 0.5) for tokens in (16, 48) for _ in range(100)]], ids=["along", "across", "two keys"])
def test_after_a_tenth_the_estimate_is_within_a_fifth(workers, seconds):
    found = ends([seconds[index] for index in spread(len(seconds))], workers)
    tenth = len(seconds) // 10
    left = at(0, found[tenth - 1])
    left.seconds(0, len(seconds))
    assert left.seconds(tenth, len(seconds)) == pytest.approx(found[-1] - found[tenth - 1], rel=0.2)
