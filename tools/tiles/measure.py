"""The tables of tiles in docs/design/data-reorder.md: how fast int8 products are with other register tiles than the kernels'.

    python tools/tiles/measure.py --isa avx2 [--rounds 31]     # avx512 likewise: times tiles here, by turns; processor time of one thread
    python tools/tiles/measure.py --isa neon                   # multiply-adds per cycle of simulated cores, by llvm-mca

x86 needs g++ and a processor that has the instructions; NEON needs what tools/cpu_costs/generate.py needs.
"""
import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent / "cpu_costs"))
import generate  # noqa: E402
from mca import cycles  # noqa: E402

X86 = {"avx2": ["-mavx2"],  # as the kernels are compiled
       "avx512": ["-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512vnni", "-mprefer-vector-width=512"]}
FORMATS = {"q4_0": 4, "q8_0": 8}
CORES = {"Cortex-A720": "cortex-a720", "Cortex-X4": "neoverse-v2", "Cortex-A520": "cortex-a520"}
_WEIGHTS, _OCTETS = "CodeWeights<{bits}, false, 32>", "OctetWeights<{bits}>"
_SDOT = "DotStep<MatrixStep::kCopies>"
NEON = {  # tile: (function, sums of a round of its loop)
    "`smmla` 8 x 4": (f"register_pass<MatrixStep, {_WEIGHTS}, 1, 8>", 8 * 4),
    "10 x 4": (f"register_pass<MatrixStep, {_WEIGHTS}, 1, 10>", 10 * 4),
    "12 x 4": (f"register_pass<MatrixStep, {_WEIGHTS}, 1, 12>", 12 * 4),
    "6 x 8": (f"register_pass<MatrixStep, {_WEIGHTS}, 2, 6>", 6 * 8),
    "10 x 8, float sums in memory": (f"memory_pass<MatrixStep, {_WEIGHTS}, 2, 10>", 10 * 8),
    "8 x 4, l_p = 8 in memory": (f"register_pass<MatrixStep, {_OCTETS}, 1, 8>", 8 * 4),
    "`sdot` 8 x 4": (f"register_pass<{_SDOT}, {_WEIGHTS}, 1, 8>", 8 * 4),
    "12 x 4 ": (f"register_pass<{_SDOT}, {_WEIGHTS}, 1, 12>", 12 * 4),
    "12 x 8, float sums in memory": (f"memory_pass<WideDotStep, {_WEIGHTS}, 2, 12>", 12 * 8),
    "`sdot` 1 x 16": (f"register_pass<{_SDOT}, {_WEIGHTS}, 4, 1>", 16),
    "1 x 16, l_p = 8 in memory": ("octet_single<{bits}>", 16),
}


SINGLE = ("`sdot` 1 x 16", "1 x 16, l_p = 8 in memory")  # with the prefetch of weights, which batches have behind them


def x86(isa, rounds):
    """-> {(tile, format): (lower quartile, median, upper quartile of the first tile's time over its own, 1e9 multiply-adds a second)}."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "tiles"
        subprocess.run(["g++", "-std=c++20", "-O3", *X86[isa], "-mfma", "-mf16c", "-o", program, FOLDER / "x86_tiles.cpp"], check=True)
        done = subprocess.run([program, str(rounds)], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr.strip() or f"this processor can not run {isa} (exit {done.returncode})")
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    return {(tile, name): tuple(map(float, numbers)) for tile, name, *numbers in rows}


def neon():
    """-> {(tile, format, core): multiply-adds per cycle}."""
    source, flags, _, _ = generate.SETS["neon-i8mm"]
    pointers = {f"t{number}_{name}": function.format(bits=bits) for number, (function, _) in enumerate(NEON.values())
                for name, bits in FORMATS.items()}
    functions = generate.functions_of([f"engine/kernels/neon/{source}.cpp", FOLDER / "neon_tiles.hpp"], flags, pointers)
    found = {}
    for number, (tile, (_, rows)) in enumerate(NEON.items()):
        for name in FORMATS:
            lines = functions[f"t{number}_{name}"]
            path, work = generate.tile_path(lines, generate.INT_MACS, rows * 32, 1 if tile in SINGLE else 2)
            found |= {(tile, name, core): work / cycles(path, model) for core, model in CORES.items()}
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--isa", choices=[*X86, "neon"], required=True)
    parser.add_argument("--rounds", type=int, default=31)
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error(f"--rounds: {options.rounds} (expected 1 or more)")
    if options.isa == "neon":
        found = neon()
        print(f"| tile | {' | '.join(CORES)} |\n|---|{'---|' * len(CORES)}")
        for tile in NEON:
            cells = [", ".join(f"{found[tile, name, core]:.1f}" for name in FORMATS) for core in CORES]
            print(f"| {tile.strip()} | {' | '.join(cells)} |")
        return
    found = x86(options.isa, options.rounds)
    print(f"| tile | {' | '.join(FORMATS)} |\n|---|{'---|' * len(FORMATS)}")
    for tile in dict.fromkeys(tile for tile, _ in found):
        cells = ["{1:.2f} ({0:.2f}-{2:.2f})".format(*found[tile, name]) for name in FORMATS]
        print(f"| {tile} | {' | '.join(cells)} |")


if __name__ == "__main__":
    sys.exit(main())
