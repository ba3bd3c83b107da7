"""The time that remains."""
from vitro.base.remaining import Remaining


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
