"""Holds a cell against its oracle; the fixtures are for the modules that import them."""
import subprocess
import sys

import pytest
from adapters import random_adapter, weights_of, write_adapter
from cells import (COMMON, GPU, KV, MODELS, NPU_PRODUCTS, ON_NPU, PAIRED_KV, PAIRED_PRODUCTS, PAIRED_WORKLOADS,
                   PRODUCTS, all_cells, contract_of, embedding_apart, experiment, like_itself, oracle, outcome)
from conftest import opencl_platforms
from draw import ADAPTERS
from families import SHAPES, matrices
from oracle import random_model, write_gguf
from vitro.running import experiments

LOADS = [[1 / 8] * 8] * 3  # of the embedded mixture: no expert is busier than another


@pytest.fixture(scope="module", autouse=True)
def forked():
    """Of host's runs, too, tokens alone are looked at: none of them needs an interpreter of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiments, "measures", lambda composed: False)
        yield


@pytest.fixture(scope="module")
def weights(tmp_path_factory, has_native):
    """(model, scheme, whether the output matrix is no longer the embedding) -> a file of the embedded model with weights of that scheme."""
    folder, made = tmp_path_factory.mktemp("weights"), {}

    def file(model, scheme, apart=False):
        if model in SHAPES and (model, "") not in made:
            made[model, ""] = folder / f"{model}.gguf"
            write_gguf(random_model(SHAPES[model], seed=4), made[model, ""])
        base = made[model, ""] if model in SHAPES else MODELS[model]
        if scheme == "f16" and not apart:
            return base
        key = (model, scheme, apart)
        if key not in made:
            made[key] = folder / f"{model}.{scheme}{'.apart' if apart else ''}.gguf"
            matrices = ["--embedding", "bf16", "--output", "q8_0"] if apart else []
            layers = "q8_0" if scheme == "f16" else scheme  # what there is needs no scheme
            subprocess.run([sys.executable, "-m", "vitro", "quantize", str(base), str(made[key]), "--scheme", layers, *matrices],
                           check=True, capture_output=True)
        return made[key]
    return file


def file_of(cell, weights):
    return weights(cell.model, PRODUCTS[cell.products][1], embedding_apart(cell))


@pytest.fixture(scope="module")
def adapters(tmp_path_factory, weights):
    """model -> `engine.lora.adapters` of files for it."""
    folder, made, base = tmp_path_factory.mktemp("adapters"), {}, weights

    def of(model):
        if model not in made:
            weights, shape = weights_of(base(model, "f16")), SHAPES.get(model)
            made[model] = [{"name": name, "file": str(write_adapter(random_adapter(weights, matrices(shape, name), rank=rank, seed=rank),
                                                                    folder / f"{model}.{name}.gguf", shape.arch if shape else "llama")),
                            "scale": scale}
                           for name, rank, scale in zip(ADAPTERS, (4, 7), (1, 0.5))]
        return made[model]
    return of


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
