"""Holds a cell against its oracle; the fixtures are for the modules that import them."""
import subprocess
import sys

import pytest
from cells import COMMON, GPU, MODELS, PRODUCTS, all_cells, experiment, like_itself, oracle, outcome
from conftest import opencl_platforms

LOADS = [[1 / 8] * 8] * 3  # of the embedded mixture: no expert is busier than another


@pytest.fixture(scope="module")
def weights(tmp_path_factory, has_native):
    """(model, scheme) -> a file of the embedded model with weights of that scheme."""
    if not has_native:
        pytest.skip("the extension module is not built")
    folder, made = tmp_path_factory.mktemp("weights"), {}

    def file(model, scheme):
        if scheme == "f16":
            return MODELS[model]
        if (model, scheme) not in made:
            made[model, scheme] = folder / f"{model}.{scheme}.gguf"
            subprocess.run([sys.executable, "-m", "vitro", "quantize", str(MODELS[model]), str(made[model, scheme]), "--scheme", scheme],
                           check=True, capture_output=True)
        return made[model, scheme]
    return file


@pytest.fixture(scope="module")
def right(weights):
    """cell -> what its oracle decides; the same for cells that differ in nothing but where things are."""
    known = {}

    def of(cell):
        parts, kv = cell.parts if like_itself(cell) else "", cell.kv if cell.kv in ("int8_fp8", "staged") else ""
        key = (parts, cell.products, kv, cell.workload, cell.model)
        if key not in known:
            known[key] = outcome(oracle(cell, weights(cell.model, PRODUCTS[cell.products][1]), LOADS))
        return known[key]
    return of


def check(cell, weights, right):
    if cell.parts in GPU and cell.machine == "host" and not opencl_platforms():
        pytest.skip("needs an OpenCL device")
    assert outcome(experiment(cell, weights(cell.model, PRODUCTS[cell.products][1]), LOADS)) == right(cell), cell


def matrix(machine):
    """-> lists of cells that together are the whole matrix on a machine; other parts than the common ones, and staged keys and values, are
    paired and drawn."""
    cells = [cell for cell in all_cells() if cell.parts in COMMON and cell.kv != "staged" and cell.machine == machine]
    return [cells[first:first + 24] for first in range(0, len(cells), 24)]
