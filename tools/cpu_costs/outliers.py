"""Prices of w4_outliers: those of the loops that its nibbles run, and of the loop over outliers, which every hundredth column takes."""
from loops import hot_path, multiplies
from mca import cycles

COLUMNS = 100  # of which one is an outlier: OutlierRow of engine/quant/outlier_rows.hpp
POINTERS = {"outliers": "outliers::add<Vector>", "put_outliers": "block_rows::outlier_row<Vector>"}


def add_prices(kernel_set, functions, model, rates, conversions, notes):
    """Adds to {rows of a pass: rates}, {kernel: conversion} and notes of a set; products where it has those of codes of four bits."""
    taken, made = measured(functions["put_outliers"], {"scvtf": 1}, model)
    notes.append(f"{kernel_set} outliers of a row, {made} of them: {taken:.4g} cycles")
    conversions["float.w4_outliers"] = conversions["float.q4_0"] + taken / made / COLUMNS
    if "int8.w4g32r" not in rates[1]:
        return
    taken, work = measured(functions["outliers"], {"fmla": 4}, model)
    notes.append(f"{kernel_set} outliers of 16 rows, {work} multiply-adds: {taken:.4g} cycles")
    conversions["int8.w4_outliers"] = conversions["int8.q4_0"]
    for of_pass in rates.values():
        of_pass["int8.w4_outliers"] = 1 / (1 / of_pass["int8.w4g32r"] + taken / work / COLUMNS)


def measured(lines, marks, model):
    """-> (cycles of a round, what it makes)."""
    path = hot_path(lines, marks, longest=False)
    return cycles(path, model), multiplies(path, marks)
