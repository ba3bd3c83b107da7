"""Parts compose: every combination gives the tokens that its numeric contracts give on cores, on host and in sim, or a refusal that the
project allows (docs/guide/composing-an-engine.md)."""
import pytest
from cells import MODELS, all_cells, experiment, outcome, pairs
from checking import LOADS, check, files, forked, right, weights  # noqa: F401 (fixtures)
from draw import MAY_BE_REFUSED, draw
from families import SHAPES
from vitro.errors import ConfigError

DRAWN = 300


@pytest.mark.parametrize("cell", pairs(), ids=str)
def test_every_pair_of_parts_runs_right(cell, weights, right):
    check(cell, weights, right)


def test_the_drawn_hold_every_model_workload_and_judge_adapters_and_unfused_graphs_beside_accelerators():
    trees = [draw(seed, LOADS).tree for seed in range(DRAWN)]
    scaled = [tree["workload"]["scaling"] for tree in trees if "scaling" in tree["workload"]]
    assert {scaling["method"] for scaling in scaled} == {"best_of_n", "beam_search", "self_consistency"}
    assert {scaling["scorer"]["kind"] for scaling in scaled if "scorer" in scaling} == {"model", "log_probability", "regex"}
    workloads = [tree["workload"] for tree in trees]
    assert {"requests", "restore_kv", "sampling", "adapter"} <= {key for workload in workloads for key in workload}
    assert any("continue" in request for workload in workloads for request in workload.get("requests", ()))
    assert {tree.get("machine") for tree in trees} == {"sim", "host"}
    assert {key for tree in trees for key in tree["memory"]} == {"budget", "ffn_in_dram"}
    engines = [tree["engine"] for tree in trees]
    assert {"int8_tables", "int16_tables"} <= {engine.get("products", {}).get("numerics") for engine in engines}
    by_neuron = [engine for engine in engines if engine["ffn"]["kind"] == "clusters" and "lora" in engine]
    assert {engine["lora"]["order"] for engine in by_neuron} == {"a_bx", "ab_x"}
    assert any("unit" in engine["placement"] and "fuse" in engine.get("graph", {}) for engine in engines)
    splits = [split for engine in engines for split in engine["placement"].get("splits", ())]
    assert {"hot_by_layer", "streamed"} <= {key for split in splits for key in split}
    assert {draw(seed, LOADS).model for seed in range(DRAWN)} == {*MODELS, *SHAPES}
    assert any(engine["ffn"].get("experts", {}).get("shapes") == "exact" and engine["weights"]["kind"] != "dram" for engine in engines)


def run_drawn(seeds, files):
    ran = 0
    for seed in seeds:
        drawn = draw(seed, LOADS)
        tree, plain = drawn.tree, drawn.oracle
        tree["model"] = plain["model"] = {"gguf": str(files.weights(drawn.model, drawn.scheme, drawn.apart))}
        if "lora" in tree["engine"]:
            tree["engine"]["lora"]["adapters"] = plain["engine"]["lora"]["adapters"] = files.adapters(drawn.model)
        try:
            found = outcome(tree)
        except ConfigError as error:
            assert any(reason in str(error) for reason in MAY_BE_REFUSED), f"seed {seed}: {error}"
            continue
        assert found == outcome(plain), f"seed {seed}: {tree}"
        ran += 1
    return ran


def test_drawn_configurations_run_right(files):
    assert run_drawn(range(15), files) > 9


@pytest.mark.all
@pytest.mark.parametrize("first", range(15, DRAWN, 15))
def test_all_drawn_configurations_run_right(first, files):
    assert run_drawn(range(first, first + 15), files) > 7


def test_what_a_machine_or_model_lacks_is_refused_with_its_key(weights):
    cell = next(cell for cell in all_cells() if cell.parts == "dense" and cell.machine == "sim" and cell.model == "dense")
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
