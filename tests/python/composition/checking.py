"""Holds a cell against its oracle; the fixtures are for the modules that import them."""
import pytest
from cells import (COMMON, GPU, KV, MODELS, NPU_PRODUCTS, ON_NPU, PAIRED_KV, PAIRED_PRODUCTS, PAIRED_WORKLOADS,
                   PRODUCTS, all_cells, contract_of, embedding_apart, experiment, like_itself, oracle, outcome)
from conftest import opencl_platforms
from drawn_models import Files
from vitro.running import experiments

LOADS = [[1 / 8] * 8] * 3  # of the embedded mixture: no expert is busier than another


@pytest.fixture(scope="module", autouse=True)
def forked():
    """Of host's runs, too, tokens alone are looked at: none of them needs an interpreter of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiments, "measures", lambda composed: False)
        yield


@pytest.fixture(scope="module")
def files(tmp_path_factory, has_native):
    return Files(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def weights(files):
    return files.weights


def file_of(cell, weights):
    return weights(cell.model, PRODUCTS[cell.products][1], embedding_apart(cell))


@pytest.fixture(scope="module")
def right(weights):
    """cell -> what its oracle decides; the same for cells that differ in nothing but where things are."""
    known = {}

    def of(cell):
        parts, kv = cell.parts if like_itself(cell) else "", cell.kv if "kv.format" in KV[cell.kv] else ""
        key = (parts, cell.products, *contract_of(cell).values(), kv, cell.workload, cell.model, embedding_apart(cell))
        if key not in known:
            known[key] = outcome(oracle(cell, file_of(cell, weights), LOADS))
        return known[key]
    return of


def check(cell, weights, right):
    if cell.parts in GPU and cell.machine == "host" and not opencl_platforms():
        pytest.skip("needs an OpenCL device")
    assert outcome(experiment(cell, file_of(cell, weights), LOADS)) == right(cell), cell


def matrix(machine):
    """-> lists of cells that together are the whole matrix on a machine; other parts than the common ones, staged keys and values, what
    else is PAIRED, and methods of an NPU where none computes are paired and drawn."""
    cells = [cell for cell in all_cells() if cell.parts in COMMON and cell.kv not in PAIRED_KV and cell.machine == machine
             and cell.model in MODELS and cell.workload not in PAIRED_WORKLOADS and cell.products not in PAIRED_PRODUCTS
             and (cell.products not in NPU_PRODUCTS or (machine == "sim" and cell.parts in ON_NPU))]
    return [cells[first:first + 24] for first in range(0, len(cells), 24)]
