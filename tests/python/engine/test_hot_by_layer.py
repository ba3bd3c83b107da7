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
    (["10%"] * 3 + [["10%", "20%"]], "has 2 shares for layer 3 (expected 1, or one for each of its 1 experts)"),
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


def test_other_ffns_have_no_layers_of_their_own():
    run = experiment(RELU, "sim", 100, {"splits": [{"batch": 1, "hot_by_layer": ["10%"] * 4}]})
    run["engine"] |= {"ffn": {"kind": "dense"}, "weights": {"kind": "streamed"}}
    with pytest.raises(vitro.ConfigError, match="hot_by_layer: needs FFNs that compute neuron by neuron"):
        vitro.run(run)
