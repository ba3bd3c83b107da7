"""Writes the lists of values that GGUF's codebook formats point into, as digits, from the tables of the gguf package.

    python tools/quant/codebook_digits.py engine/quant/codebooks.cpp

It replaces what stands between the two marks in that file.
"""
import sys
from pathlib import Path

import numpy as np
from gguf import quants

FORMATS = {"kIq2Xxs": quants.IQ2_XXS, "kIq2Xs": quants.IQ2_XS, "kIq2S": quants.IQ2_S,
           "kIq3Xxs": quants.IQ3_XXS, "kIq3S": quants.IQ3_S, "kIq1": quants.IQ1_S}
BEGIN, END, WIDTH = "// Digits: tools/quant/codebook_digits.py writes them.\n", "// End of the digits.\n", 128


def digits(kind):
    """Every value by its place among those that occur: a digit each if there are eight, a digit for two if there are three."""
    kind.init_grid()
    places = np.searchsorted(np.array(kind.grid_map), kind.grid.reshape(-1))
    if len(kind.grid_map) <= 4:
        places = places[0::2] | places[1::2] << 2
    return "".join("0123456789abcdef"[place] for place in places)


def text():
    out = [BEGIN]
    for name, kind in FORMATS.items():
        all_digits = digits(kind)
        lines = [f'    "{all_digits[at:at + WIDTH]}"' for at in range(0, len(all_digits), WIDTH)]
        out.append(f"constexpr char {name}Digits[] =\n" + "\n".join(lines) + ";\n")
    return "".join(out) + END


def replaced(source):
    before, rest = source.split(BEGIN)
    return before + text() + rest.split(END)[1]


def main():
    file = Path(sys.argv[1])
    file.write_text(replaced(file.read_text()))


if __name__ == "__main__":
    main()
