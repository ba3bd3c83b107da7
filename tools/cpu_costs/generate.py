"""Prices of the CPU kernels, from the compiled kernels themselves.

    python tools/cpu_costs/generate.py [--out DIR] [--core x4 ...] [--set neon-i8mm ...]

Each NEON file of engine/kernels is compiled as the aarch64 preset does, with one addition: pointers to its inner functions,
which make the compiler emit them by name even where it inlined them. Nothing inside a function is marked, so the loops are
those that run. In the assembly of each function the natural loops are found from its branches; the hot one is the innermost
loop with most multiply-adds. llvm-mca prices one path through it: with the out-of-line prefetch for a single activation row,
without it for a batch. docs/design/cpu.md has the assumptions. Needs aarch64-linux-gnu-g++ and llvm-mca-19.
"""
import argparse
import functools
import re
import sys
from pathlib import Path

import codebooks
import halves
import outliers
from cores import CORES
from loops import block_path, function_lines, hot_path, multiplies, once_through
from mca import MCA, cycles, run

ROOT = Path(__file__).resolve().parents[2]
COMPILER = "aarch64-linux-gnu-g++"
FLAGS = ["-std=c++20", "-O3", "-DNDEBUG", "-fPIC", "-ffp-contract=off", "-I", str(ROOT)]

SETS = {  # name: (file of engine/kernels/neon, its flags in engine/kernels/CMakeLists.txt, its target, its step of batches of int8 tiles)
    "neon": ("neon", [], "Target", None),
    "neon-dotprod": ("neon_dotprod", ["-march=armv8.2-a+dotprod", "-mtune=cortex-a76"], "DotTarget", "DotStep<1>"),
    "neon-i8mm": ("neon_i8mm", ["-march=armv8.2-a+dotprod+i8mm", "-mtune=cortex-a76"], "DotTarget", "MatrixStep"),
}

# What a multiply adds up, per instruction; the integer ones count in tiles, the float one in dot products.
INT_MACS = {"smmla": 32, "sdot": 16, "smull": 8, "smull2": 8}
FLOAT_MACS = {"fmla": 4}
LOOPS = {  # kernel: (function for M activation rows, multiplies, multiply-adds of one step with one row)
    "float.f32": ("lanes::dot_block<Vector, Vector::kRows, {rows}, float, float, lanes::InOrder>", FLOAT_MACS, 16 * 2),
    "float.f16": ("lanes::dot_block<Vector, Vector::kRows, {rows}, Half, float, lanes::InOrder>", FLOAT_MACS, 16 * 2),
    "float.f32.values": ("lanes::add_values<Vector, {rows}, float>", FLOAT_MACS, 16 * 2),
    "float.f16.values": ("lanes::add_values<Vector, {rows}, Half>", FLOAT_MACS, 16 * 2),
    "int8.q4_0": ("tiles::pass<{target}, tiles::Q4, {rows}>", INT_MACS, 16 * 32),
    "int8.q8_0": ("tiles::pass<{target}, tiles::Q8, {rows}>", INT_MACS, 16 * 32),
}
ATTENDED = ["float.f32", "float.f16"]  # attention: half dot products, half `values`; its batch are query heads that share both
# Where dot products have an instruction, passes of quarters of a group's rows take the place of tiles::pass. `weights` as in TILE_WEIGHTS.
PASS, TILE_WEIGHTS = "register_pass<{step}, {weights}, {quarters}, {rows}>", {"int8.q4_0": "CodeWeights<4, false, 32>",
                                                                             "int8.q8_0": "CodeWeights<8, false, 32>"}
BATCHES = {2: "macs_per_cycle_batch", 4: "macs_per_cycle_batch_4", 8: "macs_per_cycle_batch_8"}  # rows of a pass: key of its rates
MORE = {16: "macs_per_cycle_batch_16", 64: "macs_per_cycle_batch_64"}  # of codebooks alone, whose bytes are found once for all rows
K_COLUMNS = 256  # of a block of a K-quant: a loop over eight times 32 columns inside the one over blocks, which unpacks scales
K_LOOPS = {f"int8.{name}": f"tiles::k_pass<{{target}}, tiles::{form}, {{rows}}>"
           for name, form in (("q4_k", "Q4K"), ("q5_k", "Q5K"), ("q6_k", "Q6K"), ("iq4_xs", "Iq4Xs"))}
SUMS = {  # of weighted rows (accumulate), one activation row at a time: (function, multiplies, multiply-adds of one step)
    "float.f32.accumulate": ("lanes::placed_weighted<Vector, float>", FLOAT_MACS, 16 * 4),
    "float.f16.accumulate": ("lanes::placed_weighted<Vector, Half>", FLOAT_MACS, 16 * 4),
    "float.q4_0.accumulate": ("lanes::placed_weighted_q4_0<Vector>", FLOAT_MACS, 32),
    "int8.q4_0.accumulate": ("coefficients::add_blocks<{target}, lanes::kQ4Bytes>", INT_MACS, 16 * 32),
}
COEFFICIENTS = 16 * 16  # that coefficients::quantise makes: one for each block of 32 weights
# To float32 rows, which meet the loop of float.f32.
DEQUANTISED = ["bf16", "q8_0", "q4_0", "q4_k", "q5_k", "q6_k", "w4_outliers", *codebooks.RUNS]
DEQUANTISERS = {  # functions of engine/kernels/common/block_rows.hpp, elements of a block
    "q8_0": ("q8_0<Vector>", 32), "q4_0": ("q4_0<Vector>", 32), "q4_k": ("k45<Vector, false>", 256), "q5_k": ("k45<Vector, true>", 256),
    "q6_k": ("q6_k<Vector>", 256)}
# Formats of KV pools: a piece of keys and values is unpacked (engine/kernels/common/unpack_kv.hpp) and meets the loops of float.f32.
UNPACKING = {"int8": "keys8", "int4": "keys4", "fp8": "e4m3", "e5m2": "e5m2"}  # of keys and of values
MADE = {"scvtf": 4, "fcvtl": 4, "fcvtl2": 4}  # floats that come out, per instruction
KV_FORMATS = {"int8_fp8": ("int8", "fp8"), "int4_fp8": ("int4", "fp8"), "int8_e5m2": ("int8", "e5m2"), "int4_e5m2": ("int4", "e5m2")}
# Products of group formats, priced by their loops over blocks of 64 columns with zero points; other groups, those without and those
# with one scale per row take the same rates: the loop itself asks which it is. Of the fastest set alone. A look-up (tbl) serves 16 rows
# and 4 columns of a plane; exact
# sums take two tables, rounded ones one.
CODE_SET, CODE_COLUMNS, TABLES, ROUNDED = "neon-i8mm", 64, {"tbl": 32}, {"tbl": 64}
CODE_LOOPS = {  # kernel: (function, what its instructions add up; look-ups count once for each plane)
    "w{bits}.lut": ("look_up::pass<{target}, {bits}, 2, {target}::tiles_together({bits})>", TABLES),
    **{f"w{{bits}}, {'one row' if rows == 1 else f'{rows} rows'}": (rows, INT_MACS) for rows in (1, *BATCHES)},  # by PASS
    "w{bits} tables": ("look_up::rounded_pass<{target}, {bits}>", ROUNDED),
}
PLANES, GROUPS = (1, 2, 3, 4), (32, 64, 128)  # bits of codes that lie in planes, and so are looked up as well
ENDINGS = dict.fromkeys(PLANES, ("", "z", "r")) | {4: ("", "z", "r", "zr"), 8: ("z", "zr")}  # by bits; those of zr have no look-ups
MOST_LOOK_UP_ROWS = 4  # kMostLookUpRows of engine/kernels/cpu/int8_matmul.cpp
MAKE_TABLES, CHUNK = "look_up::make_tables<{target}>", 32  # activations of a round, which stores 16 registers
MAKE_ROUNDED, LARGEST = "look_up::make_rounded_tables<{target}>", 64  # of rounded ones; activations of a round that finds the largest sum
SCALES, SCALES_AT_ONCE = "lanes::block_scales<Vector>", 16  # what quantise() calls between its two loops, for so many blocks


@functools.cache
def compiled(kernel_set):
    """-> {name: lines of the function}: both loops of each kernel, the sums, and what quantises for them."""
    source, flags, target, _ = SETS[kernel_set]
    pointers = {"quantise32": "lanes::quantise<Vector>", "scales": SCALES, "coefficients": f"coefficients::quantise<{target}>"}
    pointers |= {f"unpack_{name}": f"unpack_kv::{function}<Vector>" for name, function in UNPACKING.items()}
    pointers |= {f"dequantise_{name}": f"block_rows::{function}" for name, (function, _) in DEQUANTISERS.items()}
    pointers |= codebooks.pointers(target)
    pointers |= {symbol(kernel, 1): function.format(target=target) for kernel, (function, _, _) in SUMS.items()}
    pointers |= {symbol(kernel, rows): tile_pass(kernel_set, kernel, rows) for kernel in LOOPS for rows in passes(kernel_set, kernel)}
    pointers |= {symbol(kernel, rows): function.format(target=target, rows=1 if rows == 1 else f"{target}::kBatch")
                 for kernel, function in K_LOOPS.items() for rows in (1, 2)}
    if kernel_set == CODE_SET:
        for bits in ENDINGS:
            for kernel, function in code_loops(bits).items():
                name = code_symbol(kernel, bits)
                pointers[name] = (register_pass(kernel_set, f"CodeWeights<{bits}, true>", function) if isinstance(function, int)
                                  else function.format(target=target, bits=bits))
        pointers |= {"make_rounded": MAKE_ROUNDED.format(target=target), "make_tables": MAKE_TABLES.format(target=target),
                     "quantise64": "lanes::quantise<Vector, 64>"}
    return functions_of([f"engine/kernels/neon/{source}.cpp"], flags, pointers | outliers.POINTERS)


@functools.cache
def compiled_halves():
    return functions_of([halves.SOURCE], halves.FLAGS, halves.POINTERS)


def passes(kernel_set, kernel):
    """Activation rows that a pass takes; where kBatch says how many they are in a batch, 2 is that."""
    return (1, *BATCHES) if kernel in TILE_WEIGHTS and SETS[kernel_set][3] else (1, 2)


def tile_pass(kernel_set, kernel, rows):
    _, _, target, step = SETS[kernel_set]
    if kernel in TILE_WEIGHTS and step:
        return register_pass(kernel_set, TILE_WEIGHTS[kernel], rows)
    batch = f"{target}::kBatch" if kernel in TILE_WEIGHTS else "Vector::kBatch"
    return LOOPS[kernel][0].format(target=target, rows=1 if rows == 1 else batch)


def register_pass(kernel_set, weights, rows):
    step = SETS[kernel_set][3]
    step = f"DotStep<{step}::kCopies>" if rows == 1 else step
    return PASS.format(step=step, weights=weights, quarters=quarters(rows), rows=rows)


def quarters(rows):
    return min(4, 8 // rows)


def functions_of(files, flags, pointers):
    """Compiles files, one after another, with pointers {name: function} to what is inside. -> {name: lines of the function}."""
    wanted = [f"[[gnu::used]] extern const auto pointer_to_{name} = {function};" for name, function in pointers.items()]
    lines = [*(f'#include "{file}"' for file in files), "namespace vitro {", "namespace {", 'extern "C" {', *wanted, "}", "}", "}", ""]
    assembly = run([COMPILER, *FLAGS, *flags, "-S", "-fno-asynchronous-unwind-tables", "-x", "c++", "-o", "-", "-"],
                   "\n".join(lines)).splitlines()
    # GNU's assembler takes `prfm` with a negative offset as `prfum`, for which LLVM's models have no entry; offsets are free.
    assembly = [re.sub(r"\b(prfm\s+\w+, \[\w+), -\d+]", r"\1]", line) for line in assembly]
    targets = {name: assembly[assembly.index(f"pointer_to_{name}:") + 1].split()[1] for name in pointers}
    return {name: function_lines(assembly, target) for name, target in targets.items()}


def symbol(kernel, rows):
    return f"{kernel.replace('.', '_')}_{rows}"


def code_loops(bits):
    """-> {kernel of CODE_LOOPS: its function, or the rows of its pass}: of codes without planes dot products alone."""
    return {kernel: function for kernel, (function, _) in CODE_LOOPS.items() if bits in PLANES or isinstance(function, int)}


def code_symbol(kernel, bits):
    return re.sub(r"\W", "_", kernel.format(bits=bits))


def measure(kernel_set, model):
    """-> ({rows of a pass: macs per cycle}, cycles per converted element, one comment per loop)."""
    functions, rates, notes = compiled(kernel_set), {rows: {} for rows in (1, *BATCHES, *MORE)}, []
    loops = [(kernel, macs, step, rows) for kernel, (_, macs, step) in LOOPS.items() for rows in passes(kernel_set, kernel)]
    loops += [(kernel, macs, step, 1) for kernel, (_, macs, step) in SUMS.items()]
    loops += [(kernel, INT_MACS, None, rows) for kernel in K_LOOPS for rows in (1, 2)]
    for kernel, macs, step, rows in loops:
        lines = functions[symbol(kernel, rows)]
        path, work = tile_path(lines, macs, step, rows) if step else whole_block(lines, rows * 16 * K_COLUMNS, rows)
        taken = cycles(path, model)
        rates[rows][kernel] = work / taken
        notes.append(f"{kernel_set} {kernel}, {'one row' if rows == 1 else f'{rows} rows'}: {len(path)} instructions, "
                     f"{4 * len(path)} bytes of code, {work} multiply-adds, {taken:.4g} cycles")
    conversions = dict.fromkeys(("float.f16", "float.f16.accumulate", "float.f16.attention", "float.q4_0.accumulate"), 0)  # loops' own work
    if kernel_set == halves.SET:
        halves.add_prices(compiled_halves(), model, rates, conversions, notes)
    for kernel in ATTENDED:
        for of_pass in (rates[1], rates[2]):
            of_pass[f"{kernel}.attention"] = 2 / (1 / of_pass[kernel] + 1 / of_pass.pop(f"{kernel}.values"))
    for rows in (1, 2):
        rates[rows] |= {f"float.{name}.attention": rates[rows]["float.f32.attention"] for name in KV_FORMATS}
    for name, (_, elements) in DEQUANTISERS.items():
        lines = functions[f"dequantise_{name}"]
        conversions[f"float.{name}"] = conversion(f"{kernel_set} dequantise {name}", lines, elements, model, notes)
    unpacking = {name: measure_unpacking(kernel_set, name, functions[f"unpack_{name}"], model, notes) for name in UNPACKING}
    conversions |= {f"float.{name}.attention": (unpacking[key] + unpacking[value]) / 2 for name, (key, value) in KV_FORMATS.items()}
    quantising = measure_quantising(kernel_set, functions, 32, model, notes)
    weighting = conversion(f"{kernel_set} coefficients", functions["coefficients"], COEFFICIENTS, model, notes)
    conversions |= dict.fromkeys((*K_LOOPS, "int8.q4_0", "int8.q8_0"), quantising) | {"int8.q4_0.accumulate": weighting}
    if kernel_set == CODE_SET:
        more, of_codes = measure_codes(kernel_set, functions, model, notes)
        conversions |= of_codes
        for rows in more:
            rates[rows] |= more[rows]
    outliers.add_prices(kernel_set, functions, model, {rows: rates[rows] for rows in (1, *BATCHES)}, conversions, notes)
    codebooks.add_prices(kernel_set, functions, model, rates, conversions, notes)
    return rates, conversions, notes


def measure_unpacking(kernel_set, name, lines, model, notes):
    """Cycles per number of the loop that makes most of them: 16 of a key in int8 or of values, the 32 of a group of a key in int4."""
    path = hot_path(lines, MADE, longest=False)
    taken, made = cycles(path, model), multiplies(path, MADE)
    step = 32 if name == "int4" else 16
    if made != step:
        raise SystemExit(f"{kernel_set} unpack {name}: a loop over {made} numbers, expected {step}")
    notes.append(f"{kernel_set} unpack {name}, {made} numbers: {len(path)} instructions, {taken:.4g} cycles")
    return taken / made


def tile_path(lines, macs, step, rows):
    """-> (the hot loop's path, its multiply-adds), whole steps of both kinds."""
    path = hot_path(lines, macs, longest=rows == 1)
    work = multiplies(path, macs)
    if macs is INT_MACS:
        work -= work % step  # an integer step is whole; nothing else multiplies integers
    if work == 0 or work % step != 0:
        raise SystemExit(f"the loop found has {work} multiply-adds, no multiple of {step}")
    return path, work


def whole_block(lines, work, rows):
    """-> (what runs for a block of a K-quant, its multiply-adds)."""
    path = block_path(lines, INT_MACS, work, longest=rows == 1)
    if multiplies(path, INT_MACS) != work:
        raise SystemExit(f"{multiplies(path, INT_MACS)} multiply-adds found, {work} expected")
    return path, work


def measure_codes(kernel_set, functions, model, notes):
    """-> the rates and conversions of the group formats. Up to four rows are looked up one by one; more are dot products of unpacked
    codes, priced as those of fields."""
    rates, conversions = {rows: {} for rows in (1, *BATCHES)}, {}
    quantising = measure_quantising(kernel_set, functions, 64, model, notes)
    path = hot_path(functions["make_tables"], {"str": 1, "st1": 1, "stp": 2}, longest=False)
    tables = cycles(path, model)
    notes.append(f"{kernel_set} make_tables, {CHUNK} activations: {len(path)} instructions, {tables:.4g} cycles")
    rounding = measure_rounding(kernel_set, functions["make_rounded"], model, notes)
    for bits, endings in ENDINGS.items():
        dots, others = [], []
        for kernel, function in code_loops(bits).items():
            path, work = code_path(functions, kernel, bits)
            taken = cycles(path, model)
            (dots if isinstance(function, int) else others).append(work / taken)
            notes.append(f"{kernel_set} int8.{kernel.format(bits=bits)}, a block: {len(path)} instructions, {work} multiply-adds, "
                         f"{taken:.4g} cycles")
        for name, ending in ((f"w{bits}g{group}{ending}", ending) for group in GROUPS for ending in endings):
            looks_up = others and ending != "zr"
            for rows, rate in zip(rates, dots):
                rates[rows][f"int8.{name}"] = rate
                if looks_up:
                    rates[rows][f"int8.{name}.lut"] = others[0] if rows <= MOST_LOOK_UP_ROWS else rate
            conversions[f"int8.{name}"] = quantising
            if not looks_up: continue
            for rows in (1, 2):  # row by row
                rates[rows] |= {f"int8_tables.{name}": others[1]}
            conversions |= {f"int8.{name}.lut": quantising + tables / CHUNK, f"int8_tables.{name}": quantising + rounding}
    for prices in (rates[1], rates[2], conversions):
        prices["int8_tables.q4_0"] = prices["int8_tables.w4g32"]
    return rates, conversions


def code_path(functions, kernel, bits):
    """-> (what runs for a block of CODE_COLUMNS, its multiply-adds) of a loop of the group formats."""
    function, macs = CODE_LOOPS[kernel]
    if isinstance(function, int):
        planes, rows_together = 1, quarters(function) * 4 * function
    else:
        planes, rows_together = bits, 16 * (2 if macs is TABLES and bits <= 2 else 1)
    work = rows_together * CODE_COLUMNS
    longest = function == 1 or not isinstance(function, int)
    path = block_path(functions[code_symbol(kernel, bits)], macs, work * planes, longest=longest)
    if multiplies(path, macs) != work * planes:
        raise SystemExit(f"{kernel.format(bits=bits)}: {multiplies(path, macs)} found, {work * planes} expected")
    return path, work


def measure_rounding(kernel_set, lines, model, notes):
    """Cycles per activation to find a block's largest sum and to round its tables."""
    largest, tables = (hot_path(lines, marks, longest=False) for marks in ({"abs": 1}, {"ins": 1}))
    each = [cycles(path, model) / activations for path, activations in ((largest, LARGEST), (tables, CHUNK))]
    notes.append(f"{kernel_set} make_rounded_tables: {len(largest)} instructions for {LARGEST} activations, {len(tables)} for {CHUNK}, "
                 f"{sum(each):.4g} cycles each")
    return sum(each)


def measure_quantising(kernel_set, functions, block, model, notes):
    """Cycles per activation to find the largest of a block, to divide by it, and to round."""
    largest, rounding = (hot_path(functions[f"quantise{block}"], marks, longest=True) for marks in ({"fabs": 4}, {"fmul": 4}))
    found, rounded = multiplies(largest, {"fabs": 4}), multiplies(rounding, {"fmul": 4})
    if found % block or rounded % block:
        raise SystemExit(f"{kernel_set} quantise: loops over {found} and {rounded} activations, no blocks of {block}")
    scales = once_through(functions["scales"], SCALES_AT_ONCE)
    each = (cycles(largest, model) / found + cycles(scales, model) / (SCALES_AT_ONCE * block) + cycles(rounding, model) / rounded)
    notes.append(f"{kernel_set} quantise, blocks of {block}: {len(largest)} instructions for {found} activations, {len(scales)} for "
                 f"{SCALES_AT_ONCE * block}, {len(rounding)} for {rounded}, {each:.4g} cycles each")
    return each


def conversion(name, lines, elements, model, notes):
    path = once_through(lines, elements)
    taken = cycles(path, model)
    notes.append(f"{name}, a block of {elements}: {len(path)} instructions executed, {taken:.4g} cycles")
    return taken / elements


def table(values):
    """The prices of one set as YAML flow maps by variant. Rates of float32 are those of dequantised rows, too."""
    rows = values | ({f"float.{name}": values["float.f32"] for name in DEQUANTISED} if "float.f32" in values else {})
    by_variant = {}
    for kernel, value in rows.items():
        variant, name = kernel.split(".", 1)
        by_variant.setdefault(variant, []).append(f"{name}: {value:.4g}")
    return "{" + ", ".join(f"{variant}: {{{', '.join(cells)}}}" for variant, cells in by_variant.items()) + "}"


def document(core, sets):
    model, kind, why = CORES[core]
    results = {name: measure(name, model) for name in sets}
    version = re.search(r"LLVM version (\S+)", run([MCA, "--version"]))[1]
    compiler = f"{COMPILER} {run([COMPILER, '-dumpfullversion']).strip()}"
    source = f"llvm-mca {version} -mcpu={model} on the loops of engine/kernels/neon, {compiler} -O3; {why}"
    lines = ["# Written by tools/cpu_costs/generate.py from the compiled kernels: do not edit, run it again (docs/design/cpu.md).",
             "# A cluster of a device file takes it by `include:`. By instruction set, then variant and weight format."]
    for rows, key, what in ((1, "macs_per_cycle", "one activation row"), (2, BATCHES[2], "passes of two activation rows"),
                            (4, BATCHES[4], "of four"), (8, BATCHES[8], "of eight"), (16, MORE[16], "codebooks with 16 of them"),
                            (64, MORE[64], "with 64")):
        lines += [f"{key}:  # {what}", f"  kind: {kind}", f'  source: "{source}"']
        lines += [f"  {name}: {table(results[name][0][rows])}" for name in sets if results[name][0][rows]]
    lines += ["cycles_per_conversion:  # int8: of one activation, or of one coefficient of 32 weights; float: of one weight "
              "(0: within the loop above)",
              f"  kind: {kind}", f'  source: "{source}"']
    lines += [f"  {name}: {table(results[name][1])}" for name in sets]
    lines += ["# The loops:"] + [f"#   {note}" for name in sets for note in results[name][2]]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "configs" / "kernels")
    parser.add_argument("--core", nargs="*", default=list(CORES), choices=list(CORES))
    parser.add_argument("--set", nargs="*", default=list(SETS), choices=list(SETS), dest="sets")
    options = parser.parse_args()
    for core in options.core:
        (options.out / f"cpu-{core}.yaml").write_text(document(core, options.sets))


if __name__ == "__main__":
    sys.exit(main())
