"""tools/quant/codebook_digits.py: the lists in the source are those of the gguf package."""
import sys

import numpy as np
import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "tools" / "quant"))
import codebook_digits  # noqa: E402

SOURCE = ROOT / "engine" / "quant" / "codebooks.cpp"


def test_the_source_has_the_digits_of_the_package():
    source = SOURCE.read_text()
    assert codebook_digits.replaced(source) == source


@pytest.mark.parametrize(("name", "values", "of_a_digit"), [("kIq2Xxs", 8 * 256, 2), ("kIq3S", 4 * 512, 1), ("kIq1", 8 * 2048, 2)])
def test_a_digit_stands_for_one_value_or_two(name, values, of_a_digit):
    kind, digits = codebook_digits.FORMATS[name], codebook_digits.digits(codebook_digits.FORMATS[name])
    assert len(digits) * of_a_digit == values
    places = [int(digit, 16) for digit in digits]
    if of_a_digit == 2:
        places = [half for place in places for half in (place & 3, place >> 2)]
    assert np.array_equal(np.array(kind.grid_map, np.float32)[places], kind.grid.reshape(-1))
