"""Prices of the CPU kernels, from the compiled kernels themselves.

    python configs/kernels/generate.py [--out DIR] [--core x4 ...] [--set neon-i8mm ...]

Each NEON file of engine/kernels is compiled as the aarch64 preset does, with one addition: pointers to its inner functions,
which make the compiler emit them by name even where it inlined them. Nothing inside a function is marked, so the loops are
those that run. In the assembly of each function the natural loops are found from its branches; the hot one is the innermost
loop with most multiply-adds. llvm-mca prices one path through it: with the out-of-line prefetch for a single activation row,
without it for a batch. docs/cpu.md has the assumptions. Needs aarch64-linux-gnu-g++ and llvm-mca-19.
"""
import argparse
import functools
import re
import subprocess
import sys
from pathlib import Path

from loops import block_path, carried, function_lines, hot_path, multiplies, once_through

ROOT = Path(__file__).resolve().parents[2]
COMPILER, MCA = "aarch64-linux-gnu-g++", "llvm-mca-19"
FLAGS = ["-std=c++20", "-O3", "-DNDEBUG", "-fPIC", "-ffp-contract=off", "-I", str(ROOT)]

SETS = {  # name: (file of engine/kernels/neon, its flags in engine/kernels/CMakeLists.txt, namespace and step of the int8 tiles)
    "neon": ("neon", [], "tiles::", "Target"),
    "neon-dotprod": ("neon_dotprod", ["-march=armv8.2-a+dotprod"], "tiles::", "DotTarget"),
    "neon-i8mm": ("neon_i8mm", ["-march=armv8.2-a+dotprod+i8mm"], "", "DotTarget"),
}

CORES = {  # name: (llvm-mca's model, kind, why this model)
    "x2": ("neoverse-v2", "assumed", "LLVM 19 has only the two-pipe Neoverse N2 for a Cortex-X2; V2 has its four vector pipes"),
    "x3": ("neoverse-v2", "assumed", "LLVM 19 has only the two-pipe Neoverse N2 for a Cortex-X3; V2 is the server core next to it"),
    "x4": ("neoverse-v2", "assumed", "LLVM 19 has only the two-pipe Neoverse N2 for a Cortex-X4; V2 has its four vector pipes"),
    "a710": ("cortex-a710", "derived", "LLVM's own model (that of Neoverse N2, the server core next to it)"),
    "a715": ("cortex-a715", "assumed", "LLVM 19 takes the model of Neoverse N2, a core of the generation before"),
    "a720": ("cortex-a720", "derived", "LLVM's own model (that of Neoverse N2)"),
    "a510": ("cortex-a510", "derived", "LLVM's own model"),
    "a520": ("cortex-a520", "derived", "LLVM's own model (that of Cortex-A510)"),
    "oryon": ("oryon-1", "assumed", "LLVM models the first Oryon, of a laptop; both kinds of core of the phone take it"),
}

# What a multiply adds up, per instruction; the integer ones count in tiles, the float one in dot products.
INT_MACS = {"smmla": 32, "sdot": 16, "smull": 8, "smull2": 8}
FLOAT_MACS = {"fmla": 4}
LOOPS = {  # kernel: (function for one activation row, for a batch, multiplies, multiply-adds of one step with one row)
    "float.f32": ("lanes::dot_block<Vector, Vector::kRows, {}, float, lanes::InOrder>", FLOAT_MACS, 16 * 2, "Vector::kBatch"),
    "float.f16": ("lanes::dot_block<Vector, Vector::kRows, {}, Half, lanes::InOrder>", FLOAT_MACS, 16 * 2, "Vector::kBatch"),
    "int8.q4_0": ("tiles::pass<{step}, {space}Q4, {}>", INT_MACS, 16 * 32, "{step}::kBatch"),
    "int8.q8_0": ("tiles::pass<{step}, {space}Q8, {}>", INT_MACS, 16 * 32, "{step}::kBatch"),
}
K_COLUMNS = 256  # of a block of a K-quant: a loop over eight times 32 columns inside the one over blocks, which unpacks scales
K_LOOPS = {"int8.q4_k": "tiles::k_pass<{step}, tiles::Q4K, {rows}>", "int8.q6_k": "tiles::k_pass<{step}, tiles::Q6K, {rows}>"}
SUMS = {  # of weighted rows (accumulate), one activation row at a time: (function, multiplies, multiply-adds of one step)
    "float.q4_0.accumulate": ("lanes::placed_weighted_q4_0<Vector>", FLOAT_MACS, 32),
    "int8.q4_0.accumulate": ("coefficients::add_blocks<{step}, lanes::kQ4Bytes>", INT_MACS, 16 * 32),
}
COEFFICIENTS = 16 * 16  # that coefficients::quantise makes: one for each block of 32 weights
DEQUANTISED = ["bf16", "q8_0", "q4_0", "q4_k", "q5_k", "q6_k"]  # to float32 rows, which meet the loop of float.f32
DEQUANTISERS = {"q8_0": 32, "q4_0": 32, "q6_k": 256}  # functions of engine/quant/blocks.cpp with at most one loop: elements of a block
# Products of group formats, priced by their loops over blocks of 64 columns with zero points; other groups, those without and those
# with one scale per row take the same rates. Of the fastest set alone. A look-up (tbl) serves 16 rows and 4 columns of a plane; exact
# sums take two tables, rounded ones one.
CODE_SET, CODE_COLUMNS, TABLES, ROUNDED = "neon-i8mm", 64, {"tbl": 32}, {"tbl": 64}
CODE_LOOPS = {  # kernel: (function, what its instructions add up; look-ups count once for each plane)
    "w{bits}.lut": ("look_up::pass<{step}, {bits}, 2, {step}::tiles_together({bits})>", TABLES),
    "w{bits}": ("tiles::code_pass<{step}, {bits}, 1>", INT_MACS),
    "w{bits} batch": ("tiles::code_pass<{step}, {bits}, {step}::kBatch>", INT_MACS),
    "w{bits} tables": ("look_up::rounded_pass<{step}, {bits}>", ROUNDED),
}
BITS, GROUPS = (1, 2, 3, 4), (32, 64, 128)
MAKE_TABLES, CHUNK = "look_up::make_tables<{step}>", 32  # activations of a round, which stores 16 registers
MAKE_ROUNDED, LARGEST = "look_up::make_rounded_tables<{step}>", 64  # of rounded ones; activations of a round that finds the largest sum
# LLVM's Oryon has no figures for a few instructions: these take their place, of the same unit and kind.
STAND_INS = {"oryon-1": [
    (r"scvtf\s+(v)", r"frintn \1"),
    (r"\bushl\s+(v)", r"urshl \1"),
    (r"(?:dup|mov)\s+d(\d+), (v\d+\.d\[1\])", r"dup v\1.2d, \2"),
    (r"(?:dup|mov)\s+s(\d+), (v\d+\.s\[\d\])", r"dup v\1.4s, \2"),
    (r"prfm\s+\w+, \[(\w+).*", r"ldr xzr, [\1, xzr]"),
    (r"ldrs?[bh]?\s+([wx]\d+), \[(\w+)(, #?\d+)?\](, #?\d+)?", r"ldr \1, [\2, xzr]"),
    (r"ldrs?[bh]\s+(w\d+), (\[\w+, \w+\])", r"ldr \1, \2"),
    (r"[su]cvtf\s+s(\d+), w\d+.*", r"frintn v\1.4s, v\1.4s"),
    (r"[su]cvtf\s+s(\d+), s(\d+)", r"frintn v\1.4s, v\2.4s"),
    (r"str\s+s(\d+), \[(\w+)(, #?\d+)?\]$", r"stur s\1, [\2]"),
    (r"fmul\s+s(\d+), s(\d+), s(\d+)", r"fmul v\1.4s, v\2.4s, v\3.4s"),
]}
BLOCK = 32  # elements that quantise() makes of one round of its outer loop, the inner one takes them singly


@functools.cache
def compiled(kernel_set):
    """-> {name: lines of the function}: both loops of each kernel, the sums, and what quantises for them."""
    source, flags, space, step = SETS[kernel_set]
    pointers = {"quantise": "lanes::quantise<Vector>", "coefficients": f"coefficients::quantise<{step}>"}
    pointers |= {symbol(kernel, "one"): function.format(step=step) for kernel, (function, _, _) in SUMS.items()}
    for kernel, (function, _, _, batch) in LOOPS.items():
        for name, rows in (("one", "1"), ("batch", batch.format(step=step))):
            pointers[symbol(kernel, name)] = function.format(rows, step=step, space=space)
    for kernel, function in K_LOOPS.items():
        for name, rows in (("one", "1"), ("batch", f"{step}::kBatch")):
            pointers[symbol(kernel, name)] = function.format(step=step, rows=rows)
    if kernel_set == CODE_SET:
        pointers |= {code_symbol(kernel, bits): function.format(step=step, bits=bits)
                     for kernel, (function, _) in CODE_LOOPS.items() for bits in BITS}
        pointers |= {"make_rounded": MAKE_ROUNDED.format(step=step)}
        pointers |= {"make_tables": MAKE_TABLES.format(step=step), "quantise64": "lanes::quantise<Vector, 64>"}
    return functions_of(f"engine/kernels/neon/{source}.cpp", flags, pointers)


@functools.cache
def dequantisers():
    return functions_of("engine/quant/blocks.cpp", [], {name: f"dequantise_{name}" for name in DEQUANTISERS})


def functions_of(source, flags, pointers):
    """Compiles a file together with pointers {name: function} to what is inside. -> {name: lines of the function}."""
    wanted = [f"[[gnu::used]] extern const auto pointer_to_{name} = {function};" for name, function in pointers.items()]
    lines = [f'#include "{source}"', "namespace vitro {", "namespace {", 'extern "C" {', *wanted, "}", "}", "}", ""]
    assembly = run([COMPILER, *FLAGS, *flags, "-S", "-fno-asynchronous-unwind-tables", "-x", "c++", "-o", "-", "-"],
                   "\n".join(lines)).splitlines()
    # GNU's assembler takes `prfm` with a negative offset as `prfum`, for which LLVM's models have no entry; offsets are free.
    assembly = [re.sub(r"\b(prfm\s+\w+, \[\w+), -\d+]", r"\1]", line) for line in assembly]
    targets = {name: assembly[assembly.index(f"pointer_to_{name}:") + 1].split()[1] for name in pointers}
    return {name: function_lines(assembly, target) for name, target in targets.items()}


def symbol(kernel, name):
    return f"{kernel.replace('.', '_')}_{name}"


def code_symbol(kernel, bits):
    return re.sub(r"\W", "_", kernel.format(bits=bits))


# An accumulator that the compiler keeps on the stack: the next round's load needs this round's store.
ROUND_TRIP = ["ldr q0, [sp, 16]", "fmla v0.4s, v1.4s, v2.4s", "str q0, [sp, 16]"]


def cycles(lines, model):
    """Per round, in the steady state. Loads do not wait for stores elsewhere; where the loop loads what an earlier round stored,
    no round is shorter than that way through memory."""
    taken = steady(tuple(lines), model, "-noalias=true")
    return max(taken, steady(tuple(ROUND_TRIP), model, "-noalias=false")) if carried(lines) else taken


@functools.cache
def steady(lines, model, aliasing):
    """What 400 rounds take beyond 200."""
    if any(re.match(r"blr?\s", line) for line in lines):
        raise SystemExit("a hot loop calls a function: it can not be priced as straight code")

    for pattern, other in STAND_INS.get(model, []):
        lines = [re.sub(pattern, other, line) for line in lines]

    def total(rounds):
        text = run([MCA, "-march=aarch64", f"-mcpu={model}", "-mattr=+i8mm,+dotprod", aliasing, "-instruction-info=false",
                    "-resource-pressure=false", f"-iterations={rounds}"], "\n".join(lines) + "\n")
        return int(re.search(r"Total Cycles:\s+(\d+)", text)[1])
    return (total(400) - total(200)) / 200


def measure(kernel_set, model):
    """-> (macs per cycle with one row, with a batch, cycles per converted element, one comment per loop)."""
    functions, one, batch, notes = compiled(kernel_set), {}, {}, []
    loops = [(kernel, macs, step, name) for kernel, (_, macs, step, _) in LOOPS.items() for name in ("one", "batch")]
    loops += [(kernel, macs, step, "one") for kernel, (_, macs, step) in SUMS.items()]
    for kernel, macs, step, name in loops:
        into = one if name == "one" else batch
        path = hot_path(functions[symbol(kernel, name)], macs, longest=name == "one")
        work = multiplies(path, macs)
        if kernel.startswith("int8"):
            work -= work % step  # an integer step is whole; nothing else multiplies integers
        if work == 0 or work % step != 0:
            raise SystemExit(f"{kernel_set} {kernel}: the loop found has {work} multiply-adds, no multiple of {step}")
        taken = cycles(path, model)
        into[kernel] = work / taken
        notes.append(f"{kernel_set} {kernel}, {'one row' if name == 'one' else f'{work // step} rows'}: {len(path)} instructions, "
                     f"{4 * len(path)} bytes of code, {work} multiply-adds, {taken:.4g} cycles")
    for kernel in K_LOOPS:
        for name, rows, into in (("one", 1, one), ("batch", 2, batch)):
            work = rows * 16 * K_COLUMNS
            path = block_path(functions[symbol(kernel, name)], INT_MACS, work, longest=rows == 1)
            if multiplies(path, INT_MACS) != work:
                raise SystemExit(f"{kernel_set} {kernel}: {multiplies(path, INT_MACS)} found, {work} expected")
            taken = cycles(path, model)
            into[kernel] = work / taken
            notes.append(f"{kernel_set} {kernel}, a block, {'one row' if rows == 1 else f'{rows} rows'}: {len(path)} instructions, "
                         f"{work} multiply-adds, {taken:.4g} cycles")
    conversions = {"float.f16": 0, "float.q4_0.accumulate": 0}
    for name, elements in DEQUANTISERS.items():
        conversions[f"float.{name}"] = conversion(f"{kernel_set} dequantise {name}", dequantisers()[name], elements, model, notes)
    quantising = conversion(f"{kernel_set} quantise", functions["quantise"], BLOCK, model, notes)
    weighting = conversion(f"{kernel_set} coefficients", functions["coefficients"], COEFFICIENTS, model, notes)
    conversions |= {kernel: quantising for kernel in K_LOOPS}
    conversions |= {"int8.q4_0": quantising, "int8.q8_0": quantising, "int8.q4_0.accumulate": weighting}
    if kernel_set == CODE_SET:
        for prices, more in zip((one, batch, conversions), measure_codes(kernel_set, functions, model, notes)):
            prices |= more
    return one, batch, conversions, notes


def measure_codes(kernel_set, functions, model, notes):
    """-> the same three of the group formats. Batches of look-ups are dot products of unpacked codes: priced as those of fields."""
    one, batch, conversions = {}, {}, {}
    quantising = conversion(f"{kernel_set} quantise", functions["quantise64"], 64, model, notes)
    path = hot_path(functions["make_tables"], {"str": 1, "st1": 1, "stp": 2}, longest=False)
    tables = cycles(path, model)
    notes.append(f"{kernel_set} make_tables, {CHUNK} activations: {len(path)} instructions, {tables:.4g} cycles")
    rounding = measure_rounding(kernel_set, functions["make_rounded"], model, notes)
    for bits in BITS:
        rates = {}
        for kernel in CODE_LOOPS:
            path, work = code_path(functions, kernel, bits)
            taken = cycles(path, model)
            rates[kernel] = work / taken
            notes.append(f"{kernel_set} int8.{kernel.format(bits=bits)}, a block: {len(path)} instructions, {work} multiply-adds, "
                         f"{taken:.4g} cycles")
        looked_up, alone, several, rounded = rates.values()
        for name in (f"w{bits}g{group}{zero}" for group in GROUPS for zero in ("", "z", "r")):
            one |= {f"int8.{name}": alone, f"int8.{name}.lut": looked_up}
            batch |= {f"int8.{name}": several, f"int8.{name}.lut": several}
            conversions |= {f"int8.{name}": quantising, f"int8.{name}.lut": quantising + tables / CHUNK}
            one |= {f"int8_tables.{name}": rounded}
            batch |= {f"int8_tables.{name}": rounded}  # row by row
            conversions |= {f"int8_tables.{name}": quantising + rounding}
    for prices in (one, batch, conversions):
        prices["int8_tables.q4_0"] = prices["int8_tables.w4g32"]
    return one, batch, conversions


def code_path(functions, kernel, bits):
    """-> (what runs for a block of CODE_COLUMNS, its multiply-adds) of a loop of the group formats."""
    macs = CODE_LOOPS[kernel][1]
    planes, together = (1, 2 if "batch" in kernel else 1) if macs is INT_MACS else (bits, 2 if macs is TABLES and bits <= 2 else 1)
    work = together * 16 * CODE_COLUMNS
    path = block_path(functions[code_symbol(kernel, bits)], macs, work * planes, longest="batch" not in kernel)
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


def conversion(name, lines, elements, model, notes):
    path = once_through(lines, elements)
    taken = cycles(path, model)
    notes.append(f"{name}, a block of {elements}: {len(path)} instructions executed, {taken:.4g} cycles")
    return taken / elements


def table(values, complete):
    """The rates of one set as YAML flow maps by variant."""
    rows = dict(values)
    if complete:
        rows |= {f"float.{name}": values["float.f32"] for name in DEQUANTISED}
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
    lines = ["# Written by configs/kernels/generate.py from the compiled kernels: do not edit, run it again (docs/cpu.md).",
             "# A cluster of a device file takes it by `include:`. By instruction set, then variant and weight format."]
    for key, what, at in (("macs_per_cycle", "one activation row", 0), ("macs_per_cycle_batch", "several activation rows", 1)):
        lines += [f"{key}:  # {what}", f"  kind: {kind}", f'  source: "{source}"']
        lines += [f"  {name}: {table(results[name][at], True)}" for name in sets]
    lines += ["cycles_per_conversion:  # int8: of one activation, or of one coefficient of 32 weights; float: of one weight "
              "(0: within the loop above)",
              f"  kind: {kind}", f'  source: "{source}"']
    lines += [f"  {name}: {table(results[name][2], False)}" for name in sets]
    lines += ["# The loops:"] + [f"#   {note}" for name in sets for note in results[name][3]]
    return "\n".join(lines) + "\n"


def run(command, text=""):
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{command[0]} failed: {done.stderr.strip()}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    parser.add_argument("--core", nargs="*", default=list(CORES), choices=list(CORES))
    parser.add_argument("--set", nargs="*", default=list(SETS), choices=list(SETS), dest="sets")
    options = parser.parse_args()
    for core in options.core:
        (options.out / f"cpu-{core}.yaml").write_text(document(core, options.sets))


if __name__ == "__main__":
    sys.exit(main())
