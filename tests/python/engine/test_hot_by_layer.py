"""Hot shares that differ by layer and expert: the tokens of memory, regions of their sizes, and messages where a list does not fit."""
import json
import random

import pytest
import vitro
from test_hybrid import MIXTURE, REFERENCE, RELU, experiment

LAYERS = {RELU: 4, MIXTURE: 3}


def percent(rng):
    return f"{rng.randint(0, 100)}%"


def shares(rng, model):
    """For each layer one share or, of a mixture, one for each expert."""
    experts = 1 if model == RELU else 8
    return [percent(rng) if experts == 1 or rng.random() < 0.3 else [percent(rng) for _ in range(experts)] for _ in range(LAYERS[model])]


@pytest.mark.parametrize("machine", ["host", "sim"])
@pytest.mark.parametrize("model", [RELU, MIXTURE])
@pytest.mark.parametrize("seed", range(4))
def test_any_shares_give_the_tokens_of_memory(model, machine, seed):
    rng = random.Random(seed)
    case = REFERENCE["models"][model]["greedy"][0]
    splits = [{"batch": 1, "hot_by_layer": shares(rng, model), "attention": "50%"}, {"batch": 4, "hot": percent(rng)}]
    hybrid = {"splits": splits, "cluster": rng.choice([1, 16, 64])}
    run = experiment(model, machine, rng.choice([30, 60, 100]), hybrid, prompt=case["prompt"])
    result = vitro.run(run)
    assert result["tokens"] == case["ids"][:12]
    assert result["experiment_resolved"]["engine"]["placement"]["splits"][0]["hot_by_layer"] == splits[0]["hot_by_layer"]


@pytest.mark.parametrize("machine", ["host", "sim"])
def test_an_ffn_that_leaves_no_neuron_out_has_them_too(machine):
    case = REFERENCE["models"][RELU]["greedy"][0]
    splits = [{"batch": 1, "hot_by_layer": ["50%", "0%", "25%", "100%"], "attention": "50%"}]
    run = experiment(RELU, machine, 60, {"splits": splits, "cluster": 16}, prompt=case["prompt"])
    run["engine"]["ffn"] = {"kind": "dense"}
    assert vitro.run(run)["tokens"] == case["ids"][:12]


def test_regions_are_as_large_as_their_shares(tmp_path):
    splits = [{"batch": 4, "hot_by_layer": ["0%", "12.5%", "25%", "50%"]}]
    vitro.run(experiment(RELU, "sim", 100, {"splits": splits, "cluster": 32}), out=tmp_path)
    decided = [json.loads(line) for line in (tmp_path / "decisions.jsonl").read_text().splitlines()]
    grown = [d["what"].rsplit(": ", 1)[1] for d in decided if d["kind"] == "grow"]
    assert grown == ["3 clusters", "6 clusters", "12 clusters"]


@pytest.mark.parametrize("by_layer, said", [
    (["10%", "20%"], "has 2 entries (expected one for each of the model's 4 layers)"),
    (["10%"] * 3 + [["10%", "20%"]], "has 2 shares for layer 3 (expected 1)"),
    (["10%"] * 3 + ["120%"], '"120%" is no share'),
    (["10%"] * 3 + [[]], "has an empty list"),
    ([], "is empty (expected a share for each layer)"),
])
def test_a_list_that_does_not_fit_is_named_where_it_stands(by_layer, said, tmp_path):
    run = experiment(RELU, "sim", 100, {"splits": [{"batch": 1, "hot_by_layer": by_layer}]})
    path = tmp_path / "e.yaml"
    path.write_text(json.dumps(run, indent=1))
    with pytest.raises(vitro.ConfigError) as refused:
        vitro.run(path)
    assert said in str(refused.value) and "e.yaml:" in str(refused.value) and "splits.hot_by_layer" in str(refused.value)


@pytest.mark.parametrize("machine", ["host", "sim"])
@pytest.mark.parametrize("model", [RELU, MIXTURE])
@pytest.mark.parametrize("kind", ["dram", "paged", "streamed"])
def test_whole_ffns_have_shares_of_their_layers_and_experts(model, machine, kind):
    rng = random.Random(f"{model} {machine} {kind}")
    case = REFERENCE["models"][model]["greedy"][0]
    splits = [{"batch": 1, "hot_by_layer": shares(rng, model), "attention": "50%"}, {"batch": 4, "hot": percent(rng)}]
    run = experiment(model, machine, 100 if kind == "dram" else 60, {"splits": splits}, prompt=case["prompt"])
    run["engine"] |= {"ffn": {"kind": "dense"}, "weights": {"kind": kind}}
    assert vitro.run(run)["tokens"] == case["ids"][:12]


def test_a_layer_of_whole_matrices_is_cut_at_its_own_share(tmp_path):
    run = experiment(RELU, "sim", 100, {"splits": [{"batch": 4, "hot_by_layer": ["0%", "25%", "50%", "100%"]}]})
    run["engine"] |= {"ffn": {"kind": "dense"}, "weights": {"kind": "dram"}}
    run["engine"]["hybrid"]["prefill"] = False
    vitro.run(run, out=tmp_path)
    decided = [json.loads(line) for line in (tmp_path / "decisions.jsonl").read_text().splitlines()]
    of_unit = [d["what"].split(",")[0] for d in decided if d["kind"] == "split" and d["where"] == "npu" and "ffn_gate" in d["what"]]
    counts = [int(what.rsplit("+", 1)[1]) for what in of_unit]
    neurons = counts[3]
    assert counts == [0, neurons // 4, neurons // 2, neurons] and neurons > 0


def test_graphs_of_experts_have_no_shares():
    run = experiment(MIXTURE, "sim", 100, {"splits": [{"batch": 1, "hot_by_layer": ["10%"] * 3}]})
    run["engine"] |= {"ffn": {"kind": "experts"}, "weights": {"kind": "streamed"}}
    with pytest.raises(vitro.ConfigError, match="hot_by_layer: has nothing to act on"):
        vitro.run(run)
