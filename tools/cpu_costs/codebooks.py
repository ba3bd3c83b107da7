"""Prices of codebook formats: 16 rows of a block become bytes once, and all activation rows pass over these."""
from loops import Function, multiplies, repeated
from mca import cycles

RUNS = {"iq1_s": 32, "iq1_m": 16, "iq2_xxs": 32, "iq2_xs": 16, "iq2_s": 16, "iq3_xxs": 32, "iq3_s": 32}  # columns that share a scale
ROWS, COLUMNS, GROUPS = 16, 256, 8  # of a tile; groups of 32 columns, each a round of the loop of a pass
BATCHES = (1, 2, 4, 8, 16, 64)  # activation rows that are priced; a pass takes two
INT_MACS = {"sdot": 16, "smull": 8, "smull2": 8}


def pointers(target):
    found = {f"expand_{name}": f"tiles::expand<{target}, Format::{name}>" for name in RUNS}
    found |= {f"codebook_{name}": f"block_rows::codebook_block<Vector, Format::{name}>" for name in RUNS}
    found |= {f"codebook_{run}_{rows}": f"tiles::codebook_pass<{target}, {run}, {rows}>" for run in (16, 32) for rows in (1, 2)}
    return found


def add_prices(kernel_set, functions, model, rates, conversions, notes):
    """Adds to {activation rows: rates}, {kernel: conversion} and notes of a set."""
    passes = {}
    for run in (16, 32):
        for rows in (1, 2):
            path = pass_path(functions[f"codebook_{run}_{rows}"], rows)
            passes[run, rows] = cycles(path, model)
            notes.append(f"{kernel_set} codebook pass, scales of {run} columns, {'one row' if rows == 1 else f'{rows} rows'}: "
                         f"{len(path)} instructions, {rows * ROWS * COLUMNS} multiply-adds, {passes[run, rows]:.4g} cycles")
    for name, run in RUNS.items():
        paths = tile_paths(functions[f"expand_{name}"])
        made = ROWS * sum(cycles(path, model) for path in paths)
        notes.append(f"{kernel_set} {name}, {ROWS} rows of {COLUMNS} columns: {' and '.join(str(len(path)) for path in paths)} "
                     f"instructions, {made:.4g} cycles")
        for rows in BATCHES:
            taken = made + (rows // 2 * passes[run, 2] if rows > 1 else passes[run, 1])
            rates[rows][f"int8.{name}"] = rows * ROWS * COLUMNS / taken
        path = straight(functions[f"codebook_{name}"])
        taken = cycles(path, model)
        notes.append(f"{kernel_set} dequantise {name}, a block of {COLUMNS}: {len(path)} instructions executed, {taken:.4g} cycles")
        conversions |= {f"int8.{name}": conversions["int8.q4_0"], f"float.{name}": taken / COLUMNS}


def pass_path(lines, rows):
    path = straight(lines)
    if multiplies(path, INT_MACS) != rows * ROWS * COLUMNS:
        raise SystemExit(f"{multiplies(path, INT_MACS)} multiply-adds found, {rows * ROWS * COLUMNS} expected")
    return path


def straight(lines):
    """A function whose loops follow one another, as straight code: each as often as a block has groups."""
    function = Function(lines)
    if len(function.loops) != len(function.innermost()):
        raise SystemExit("loops within loops found where they follow each other")
    rounds = [shortest(function, function.paths(loop)) for loop in function.loops]
    way = shortest(function, [way for way in function.ways_out() if all(set(round_) <= set(way) for round_ in rounds)])
    for round_ in rounds:
        way = repeated(way, round_, GROUPS)
    return function.code(way)


def shortest(function, paths):
    return min(paths, key=lambda path: (len(function.code(path)), path))


def tile_paths(lines):
    """A round of the loop over rows, and of the one over 16 columns of all rows, both of which run 16 times; none is inside another."""
    function = Function(lines)
    if len(function.loops) != 2 or len(function.innermost()) != 2:
        raise SystemExit(f"{len(function.loops)} loops found where two follow each other")
    return [function.code(shortest(function, function.paths(loop))) for loop in sorted(function.loops)]
