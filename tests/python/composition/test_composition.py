"""Parts compose: every combination gives the tokens that its numeric contracts give on cores, on host and in sim, or a refusal that the
project allows (docs/guide/composing-an-engine.md)."""
import subprocess
import sys

import pytest
from cells import CLUSTERS, MODELS, PRODUCTS, all_cells, experiment, oracle, outcome, pairs
from draw import MAY_BE_REFUSED, draw
from vitro.errors import ConfigError

LOADS = [[1 / 8] * 8] * 3  # of the embedded mixture: no expert is busier than another
CHUNK = 24
DRAWN = 300
CELLS = all_cells()


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
        parts, kv = cell.parts if cell.parts in CLUSTERS else "", cell.kv if cell.kv == "int8_fp8" else ""
        key = (parts, cell.products, kv, cell.workload, cell.model)
        if key not in known:
            known[key] = outcome(oracle(cell, weights(cell.model, PRODUCTS[cell.products][1]), LOADS))
        return known[key]
    return of


def check(cell, weights, right):
    assert outcome(experiment(cell, weights(cell.model, PRODUCTS[cell.products][1]), LOADS)) == right(cell), cell


@pytest.mark.parametrize("cell", pairs(), ids=str)
def test_every_pair_of_parts_runs_right(cell, weights, right):
    check(cell, weights, right)


@pytest.mark.all
@pytest.mark.parametrize("first", range(0, len(CELLS), CHUNK))
def test_every_cell_runs_right(first, weights, right):
    for cell in CELLS[first:first + CHUNK]:
        check(cell, weights, right)


def run_drawn(seeds, weights):
    ran = 0
    for seed in seeds:
        model, scheme, tree, plain = draw(seed, LOADS)
        tree["model"] = plain["model"] = {"gguf": str(weights(model, scheme))}
        try:
            found = outcome(tree)
        except ConfigError as error:
            assert any(reason in str(error) for reason in MAY_BE_REFUSED), f"seed {seed}: {error}"
            continue
        assert found == outcome(plain), f"seed {seed}: {tree}"
        ran += 1
    return ran


def test_drawn_configurations_run_right(weights):
    assert run_drawn(range(30), weights) > 20


@pytest.mark.all
@pytest.mark.parametrize("first", range(30, DRAWN, 30))
def test_all_drawn_configurations_run_right(first, weights):
    assert run_drawn(range(first, first + 30), weights) > 20


def test_what_a_machine_or_model_lacks_is_refused_with_its_key(weights):
    cell = next(cell for cell in CELLS if cell.parts == "dense" and cell.machine == "sim" and cell.model == "dense")
    def refused(**engine):
        tree = experiment(cell, MODELS["dense"])
        tree["engine"].pop("threads")
        for path, value in engine.items():
            section, _, key = path.partition("__")
            tree["engine"].setdefault(section, {})[key] = value
        with pytest.raises(ConfigError) as said:
            outcome(tree)
        return str(said.value)
    assert "engine.ffn.kind: experts" in refused(ffn__kind="experts")
    assert 'has no "gpu9"' in refused(placement__units=["gpu9"])
    assert "engine.weights.embedding: flash" in refused(weights__embedding="flash")
