"""Values of points are compared by what they are."""
import numpy
import pytest
from vitro.study.values import several, text_of


@pytest.mark.parametrize("one, other", [
    (1, 1.0), (1, "1"), (1, "1.0"), (numpy.int64(1000000), "1000000"), (numpy.float32(0.5), 0.5), ("1e6", 1000000), (float("nan"), None),
    (numpy.float64("nan"), None), (["cpu0"], '["cpu0"]'), (numpy.array(3), 3), (0.1, "0.10")])
def test_one_value_has_one_text(one, other):
    assert text_of(one) == text_of(other)


@pytest.mark.parametrize("one, other", [(1000000, 1000001), (0.1234567, 0.1234568), (2 ** 60, 2 ** 60 + 1), (1, True), (1, "1 MiB"),
                                        ("1e999", "2e999"), ("nan", None), ("inf", float("nan"))])
def test_other_values_have_others(one, other):
    assert text_of(one) != text_of(other)


@pytest.mark.parametrize("wanted, values", [
    (range(3), (0, 1, 2)), (numpy.array([2]), (2,)), ([1, 2], (1, 2)), ("ab", ("ab",)), ({"a": 1}, ({"a": 1},)), (None, (None,)),
    (numpy.int64(3), (3,)), (numpy.array(3), (3,)), ((one for one in "ab"), ("a", "b"))])
def test_what_holds_several_values_is_several(wanted, values):
    assert several(wanted) == values
