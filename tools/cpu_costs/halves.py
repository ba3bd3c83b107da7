"""Prices of matmuls and attention where weights or keys and activations are float16: the loops of engine/kernels/neon/neon_fp16.cpp, which
a core with FEAT_FHM and FEAT_FP16 adds to its fastest set. Dot products add up in float32, those of the contract half_sums in float16."""
from loops import hot_path, multiplies
from mca import cycles

SET, SOURCE, FLAGS = "neon-i8mm", "engine/kernels/neon/neon_fp16.cpp", ["-march=armv8.2-a+fp16+fp16fml", "-mtune=cortex-a76"]
LOOPS = {  # kernel: (function for M activation rows, multiplies, multiply-adds of one step with one row)
    "float.f16.halves": ("block<2, {rows}>", {"fmlal": 4, "fmlal2": 4}, 16 * 2),
    "half_sums.f16": ("half_block<4, {rows}>", {"fmla": 8}, 16 * 4),
}
ATTENTION = "float.f16.halves_attention"
POINTERS = {f"{kernel.replace('.', '_')}_{rows}": function.format(rows=rows)
            for kernel, (function, _, _) in LOOPS.items() for rows in (1, 2)}


def add_prices(functions, model, rates, conversions, notes):
    """Adds to {rows of a pass: rates}, {kernel: conversion} and notes of the set. Attention: dots like these, `values` like those of
    float.f16, which `rates` has."""
    for kernel, (_, macs, step) in LOOPS.items():
        for rows in (1, 2):
            path = hot_path(functions[f"{kernel.replace('.', '_')}_{rows}"], macs, longest=rows == 1)
            taken, work = cycles(path, model), multiplies(path, macs)
            if work == 0 or work % (step * rows):
                raise SystemExit(f"{kernel}: a loop over {work} multiply-adds, no multiple of {step * rows}")
            rates[rows][kernel] = work / taken
            notes.append(f"{SET} {kernel}, {'one row' if rows == 1 else f'{rows} rows'}: {len(path)} instructions, "
                         f"{4 * len(path)} bytes of code, {work} multiply-adds, {taken:.4g} cycles")
    for of_pass in (rates[1], rates[2]):
        of_pass[ATTENTION] = 2 / (1 / of_pass["float.f16.halves"] + 1 / of_pass["float.f16.values"])
    conversions |= dict.fromkeys((*LOOPS, ATTENTION), 0)  # those loops' own work
