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
    "float.f32": ("lanes::dot_block<Vector, Vector::kRows, {}, float>", FLOAT_MACS, 16 * 2, "Vector::kBatch"),
    "float.f16": ("lanes::dot_block<Vector, Vector::kRows, {}, Half>", FLOAT_MACS, 16 * 2, "Vector::kBatch"),
    "int8.q4_0": ("tiles::pass<{step}, {space}Q4, {}>", INT_MACS, 16 * 32, "{step}::kBatch"),
    "int8.q8_0": ("tiles::pass<{step}, {space}Q8, {}>", INT_MACS, 16 * 32, "{step}::kBatch"),
}
DEQUANTISED = ["bf16", "q8_0", "q4_0", "q4_k", "q5_k", "q6_k"]  # to float32 rows, which meet the loop of float.f32
# LLVM's Oryon has no figures for a few instructions: these take their place, of the same unit and kind.
STAND_INS = {"oryon-1": [
    (r"scvtf\s", "frintn "),
    (r"(?:dup|mov)\s+d(\d+), (v\d+\.d\[1\])", r"dup v\1.2d, \2"),
    (r"prfm\s+\w+, \[(\w+).*", r"ldr xzr, [\1, xzr]"),
    (r"ldr\s+([wx]\d+), \[(\w+)(, #?\d+)?\]", r"ldr \1, [\2, xzr]"),
]}
BLOCK = 32  # elements of an activation block that quantise() makes of one round of its outer loop


@functools.cache
def compiled(kernel_set):
    """-> {name of a pointer: [lines of the function it points at]}."""
    source, flags, space, step = SETS[kernel_set]
    lines = [f'#include "engine/kernels/neon/{source}.cpp"', "namespace vitro {", "namespace {", 'extern "C" {',
             "[[gnu::used]] extern const auto loop_quantise = lanes::quantise<Vector>;"]
    for kernel, (function, _, _, batch) in LOOPS.items():
        for name, rows in (("one", "1"), ("batch", batch.format(step=step))):
            lines.append(f"[[gnu::used]] extern const auto {symbol(kernel, name)} = "
                         f"{function.format(rows, step=step, space=space)};")
    text = "\n".join([*lines, "}", "}", "}", ""])
    command = [COMPILER, *FLAGS, *flags, "-S", "-fno-asynchronous-unwind-tables", "-x", "c++", "-o", "-", "-"]
    assembly = run(command, text).splitlines()
    targets = {}
    for i, line in enumerate(assembly):
        if re.fullmatch(r"loop_\w+:", line):
            targets[line[:-1]] = assembly[i + 1].split()[1]
    return {name: function_lines(assembly, target) for name, target in targets.items()}


def symbol(kernel, name):
    return f"loop_{kernel.replace('.', '_')}_{name}"


def function_lines(assembly, name):
    first = assembly.index(f"{name}:") + 1
    last = next(i for i in range(first, len(assembly)) if assembly[i].lstrip().startswith(".size"))
    return [line.strip() for line in assembly[first:last] if re.match(r"\s+[a-z]|\.L\w+:", line)]


class Function:
    """Basic blocks of a function, their successors, and the natural loops that its backward branches close."""

    def __init__(self, lines):
        self.blocks, self.successors, labels, ends = [[]], [], {}, []
        for line in lines:
            if line.endswith(":"):
                if self.blocks[-1]:
                    self.blocks.append([])
                labels[line[:-1]] = len(self.blocks) - 1
                continue
            self.blocks[-1].append(line)
            if is_branch(line):
                self.blocks.append([])
        for i, block in enumerate(self.blocks):
            last = block[-1] if block else ""
            target = re.search(r"(\.L\w+)$", last) if is_branch(last) else None
            follows = not re.match(r"(b|br|ret)\s|ret$", last) and i + 1 < len(self.blocks)
            self.successors.append(([i + 1] if follows else []) + ([labels[target[1]]] if target else []))
        self.loops = [(header, latch) for latch, nexts in enumerate(self.successors) for header in nexts
                      if self._dominates(header, latch)]

    def _dominates(self, header, block):
        """Nothing reaches the block but through the header: the test of a natural loop's back edge."""
        seen, todo = {header}, [0]
        while todo:
            at = todo.pop()
            if at not in seen:
                seen.add(at)
                todo += self.successors[at]
        return header == 0 or block == header or block not in seen

    def body(self, loop):
        header, latch = loop
        inside, todo = {header}, [latch]
        while todo:
            at = todo.pop()
            if at not in inside:
                inside.add(at)
                todo += [i for i, nexts in enumerate(self.successors) if at in nexts]
        return inside

    def paths(self, loop):
        """Ways through one round of the loop, as lists of blocks, each block once."""
        header, latch = loop
        inside, found, todo = self.body(loop), [], [[header]]
        while todo:
            path = todo.pop()
            if path[-1] == latch:
                found.append(path)
            todo += [[*path, n] for n in self.successors[path[-1]] if n in inside and n not in path]
        return found

    def innermost(self):
        bodies = [self.body(loop) for loop in self.loops]
        return [loop for loop, body in zip(self.loops, bodies) if not any(other < body for other in bodies)]

    def code(self, path):
        return [line for block in path for line in self.blocks[block]]


def is_branch(line):
    return re.match(r"(b|b\.\w+|b(eq|ne|cs|hs|cc|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le|al)|cbn?z|tbn?z|ret|br)(\s|$)", line) is not None


def multiplies(lines, macs):
    return sum(macs.get(line.split()[0], 0) for line in lines)


def hot_path(lines, macs, longest):
    function = Function(lines)
    loops = [function.paths(loop) for loop in function.innermost()]
    most = max(multiplies(function.code(path), macs) for paths in loops for path in paths)
    paths = [path for found in loops for path in found if multiplies(function.code(path), macs) == most]
    return function.code((max if longest else min)(paths, key=lambda path: (len(function.code(path)), path)))


def quantise_path(lines):
    """One block of activations: the outer loop's code, with its only inner loop, over single elements, run BLOCK times."""
    function = Function(lines)
    (inner,) = function.innermost()
    (outer,) = [loop for loop in function.loops if function.body(inner) < function.body(loop)]
    shortest = min(function.paths(inner), key=lambda path: (len(function.code(path)), path))
    path = next(p for p in function.paths(outer) if any(p[i:i + len(shortest)] == shortest for i in range(len(p))))
    at = next(i for i in range(len(path)) if path[i:i + len(shortest)] == shortest)
    return function.code(path[:at] + BLOCK * shortest + path[at + len(shortest):])


# An accumulator that the compiler keeps on the stack: the next round's load needs this round's store.
ROUND_TRIP = ["ldr q0, [sp, 16]", "fmla v0.4s, v1.4s, v2.4s", "str q0, [sp, 16]"]


def cycles(lines, model):
    """Per round, in the steady state. Loads do not wait for stores elsewhere; where the loop loads what an earlier round stored,
    no round is shorter than that way through memory."""
    taken = steady(tuple(lines), model, "-noalias=true")
    return max(taken, steady(tuple(ROUND_TRIP), model, "-noalias=false")) if carried(lines) else taken


def carried(lines):
    """Whether a slot of the stack is loaded, and stored after that."""
    loaded = set()
    for line in lines:
        slot = re.search(r"\[sp(, #?\d+)?\]", line)
        if slot and line.startswith("ld"):
            loaded.add(slot[0])
        elif slot and line.startswith("st") and slot[0] in loaded:
            return True
    return False


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
    """-> (macs per cycle with one row, with a batch, cycles per quantised element, one comment per loop)."""
    functions, one, batch, notes = compiled(kernel_set), {}, {}, []
    for kernel, (_, macs, step, _) in LOOPS.items():
        for name, into in (("one", one), ("batch", batch)):
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
    path = quantise_path(functions["loop_quantise"])
    taken = cycles(path, model)
    notes.append(f"{kernel_set} quantise, a block of {BLOCK}: {len(path)} instructions executed, {taken:.4g} cycles")
    return one, batch, taken / BLOCK, notes


def table(values, complete):
    """The rates of one set as YAML flow maps by variant."""
    rows = dict(values)
    if complete:
        rows |= {f"float.{name}": values["float.f32"] for name in DEQUANTISED}
    by_variant = {}
    for kernel, value in rows.items():
        variant, name = kernel.split(".")
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
    lines += ["cycles_per_conversion:  # int8: quantising one activation; float.f16: the loop above converts, nothing is left",
              f"  kind: {kind}", f'  source: "{source}"']
    lines += [f"  {name}: {table({'float.f16': 0, 'int8.q4_0': results[name][2], 'int8.q8_0': results[name][2]}, False)}" for name in sets]
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
