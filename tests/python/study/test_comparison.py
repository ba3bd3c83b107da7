"""What pairs, what does not, and what is refused, in tables of two studies."""
import math

import pandas
import pytest
from vitro.errors import ConfigError
from vitro.study.comparison import compare


def table(rows, **more):
    """rows: [(seed, repeat, x)]"""
    frame = pandas.DataFrame(rows, columns=["point.workload.seed", "repeat", "x"])
    return frame.assign(**({"machine": "host", "identity": frame["point.workload.seed"].map("i{}".format)} | more))


def compared(first, second, metrics=("x",), over="workload.seed"):
    return compare(first, second, metrics, over=over, confidence=0.95)


def test_repeats_of_a_seed_are_one_value():
    first = table([(1, 0, 1.0), (1, 1, 3.0), (2, 0, 5.0)])
    found = compared(first, table([(1, 0, 4.0), (2, 0, 6.0), (2, 1, 10.0), (3, 0, 1.0)]))
    assert found.frame["pairs"].tolist() == [2] and found.unpaired == (0, 1)
    assert (found.frame["first"][0], found.frame["second"][0], found.frame["difference"][0]) == (3.5, 6, 2.5)
    alone = compared(first[:2], table([(1, 0, 4.0), (1, 1, 5.0)]))
    assert alone.frame["pairs"].tolist() == [1] and math.isnan(alone.frame["low"][0])


def test_repeats_without_a_seed_are_draws_on_a_real_machine_alone():
    frame = pandas.DataFrame({"repeat": [0, 1], "x": [1.0, 2.0], "machine": "host"})
    found = compared(frame, frame.assign(x=[2.0, 4.0]))
    assert found.frame["pairs"].tolist() == [2] and found.frame["low"][0] < 1 < 2 < found.frame["high"][0]
    assert "not paired over workload.seed" in found.method
    simulated = compared(frame.assign(machine="sim", x=1.0), frame.assign(machine="sim", x=2.0))
    assert simulated.frame["pairs"].tolist() == [1] and math.isnan(simulated.frame["low"][0])


def test_keys_pair_by_their_values_and_what_is_not_set_by_none():
    first = table([(1, 0, 1.0), (2, 0, 2.0)], **{"point.k": [float("nan"), 3.0]})
    second = table([(1, 0, 2.0), (2, 0, 4.0)], **{"point.k": [None, "3"]})
    assert compared(first, second).frame["difference"].tolist() == [1, 2] and compared(first, second).frame["k"].tolist() == ["None", "3"]
    lacking = table([(1, 0, 2.0)])
    found = compared(first, lacking)
    assert found.frame["pairs"].tolist() == [1] and found.unpaired == (1, 0)


def test_a_key_of_one_value_is_the_same_however_it_is_written():
    first = table([(1, 0, 1.0), (2, 0, 2.0)], **{"point.k": [1, 1.0]}).astype({"point.k": object})
    assert "k" not in compared(first, first).frame.columns


def test_rows_of_one_point_that_are_not_repeats_are_refused():
    first = table([(1, 0, 1.0), (1, 0, 9.0)], identity=["old", "new"], engine=["e1", "e2"], experiment="x")
    with pytest.raises(ConfigError, match=r"workload.seed 1: has 2 rows .* differ by engine .* where\({'engine': 'e2'}\)"):
        compared(first, first)
    assert compared(first[1:], first[1:]).frame["first"].tolist() == [9]
    with pytest.raises(ConfigError, match=r"differ by the experiment itself .*where\({'identity': 'new'}\)"):
        compared(first.drop(columns="engine"), first[1:])


def test_pairs_that_all_differ_by_the_same_have_no_interval():
    """Up to what a subtraction rounds: 1.2 - 1.1 and 2.2 - 2.1 are not equal to the last bit."""
    first, second = table([(1, 0, 1.1), (2, 0, 2.1)]), table([(1, 0, 1.2), (2, 0, 2.2)])
    first["y"], second["y"] = [1.0, 2.0], [2.0, 4.0]
    found = compared(first, second, ("x", "y"))
    assert found.frame["difference"].tolist() == pytest.approx([0.1, 1.5])
    assert math.isnan(found.frame["low"][0]) and math.isnan(found.frame["relative_high"][0]) and found.frame["low"][1] < 1.5
    assert "equal for all seeds: no draw, and no interval, in 1 of 2 rows (x)" in found.method
    assert "no draw" not in compared(first, second, ("y",)).method
    assert "no draw" not in compared(first[:1], second[:1]).method


@pytest.mark.parametrize("metrics, over, said", [
    (["text"], "workload.seed", "text: is no number"), (["flag"], "workload.seed", "flag: is no number"),
    (["x"], "workload.sed", "over: workload.sed is no key")])
def test_what_can_not_be_compared_is_named(metrics, over, said):
    frame = table([(1, 0, 1.0)], text="a", flag=True)
    with pytest.raises(ConfigError, match=said):
        compared(frame, frame, metrics, over)
