#!/usr/bin/env python3
"""How much rates by format could gain over rates by kind of block (docs/design/core-balance.md), from the price tables of simulated cores.

    python experiments/validation/format_rates.py [--cores x4 a720]

For each format: how many times as fast the first core computes it as the second one, per cycle, with a row of activations and in a batch.
Then what a phase of one format takes longer that is cut by another format's ratio: two cores end at different times. It is the worst pair.
"""
import argparse
import itertools
from pathlib import Path

import yaml

TABLES = Path(__file__).resolve().parents[2] / "configs" / "kernels"
FORMATS = ("q4_0", "q8_0", "q4_k", "q6_k", "w4g64z", "w4g64zr", "w8g64z", "w2g64z")
ROWS = ("macs_per_cycle", "macs_per_cycle_batch")


def ratios(cores):
    """-> {rows: {format: rate of the first core over that of the second}}."""
    tables = [yaml.safe_load((TABLES / f"cpu-{core}.yaml").read_text()) for core in cores]
    fast, slow = ({rows: table[rows]["neon-i8mm"]["int8"] for rows in ROWS} for table in tables)
    return {rows: {name: fast[rows][name] / slow[rows][name] for name in FORMATS} for rows in ROWS}


def longer(ratio, by):
    """Of a phase whose cores differ by `ratio`, cut by the ratio `by`, over one that is cut by its own."""
    share = by / (by + 1)
    return max(share * (ratio + 1) / ratio, (1 - share) * (ratio + 1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = sorted(path.stem.removeprefix("cpu-") for path in TABLES.glob("cpu-*.yaml"))
    parser.add_argument("--cores", nargs=2, default=["x4", "a720"], choices=known)
    found = ratios(parser.parse_args().cores)
    print(f"| rows | {' | '.join(FORMATS)} | worst pair |\n|---|{'---|' * (len(FORMATS) + 1)}")
    for rows, name in zip(ROWS, ("one", "two")):
        of_formats = found[rows]
        worst = max(itertools.permutations(FORMATS, 2), key=lambda pair: longer(*(of_formats[name] for name in pair)))
        lost = longer(*(of_formats[name] for name in worst)) - 1
        print(f"| {name} | {' | '.join(f'{of_formats[name]:.2f}' for name in FORMATS)} | {worst[0]} cut as {worst[1]}: {lost:.1%} |")


if __name__ == "__main__":
    main()
