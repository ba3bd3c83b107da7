"""Models with a norm over all neurons before Down (BitNet), neuron by neuron: the likelihood of the oracle, and one order of tokens."""
import json

import oracle
import pytest
import vitro
from adapters import ATTENTION, FFN
from oracle import Shape
from test_lora import DEVICE, TEXT, Case

SHAPES = {"bitnet": Shape(arch="bitnet", half_split=True, sub_norms=True, ffn=192),
          "bitnet_b158": Shape(arch="bitnet-b1.58", half_split=True, sub_norms=True, activation="relu_squared", tied=True, ffn=192)}
ENGINES = ({"clusters": {"pipeline": "none"}}, {"clusters": {"pipeline": "cluster", "neurons": 16}}, {"weights": {"kind": "dram"}},
           {"weights": {"kind": "paged"}}, {"weights": {"kind": "streamed"}}, {"ffn": {"kind": "dense"}}, {"weights": {"bundle": False}})


@pytest.fixture(scope="module", params=SHAPES, ids=str)
def case(request, tmp_path_factory, has_native):
    return Case(tmp_path_factory.mktemp(request.param), SHAPES[request.param], ATTENTION + FFN, seed=7)


@pytest.mark.parametrize("chunk", [1, 5, 64])
@pytest.mark.parametrize("engine", ENGINES, ids=str)
def test_likelihood_is_the_oracles(case, engine, chunk):
    overrides = [f"engine.{key}={json.dumps(value)}" for key, value in engine.items()]
    found = vitro.perplexity(case.base, case.text, overrides=["engine.policy=neuron_cluster", f"engine.prefill_chunk={chunk}", *overrides])
    assert found["nll"] == pytest.approx(oracle.nll(case.model, TEXT), abs=1e-4)


@pytest.mark.parametrize("order", ["a_bx", "ab_x"])
def test_adapters_of_down_meet_the_normed_neurons(case, order):
    found = case.nll("first", None, "engine.policy=neuron_cluster", "engine.prefill_chunk=1", f"engine.lora.order={order}")
    assert found == pytest.approx(oracle.nll(case.oracle("first"), TEXT), abs=1e-4)


@pytest.mark.parametrize("activations", ["f32", "f16"])
def test_hot_neurons_on_an_accelerator_count_in_the_norm(case, activations):
    splits = [{"batch": 1, "hot": "25%", "attention": "50%"}, {"batch": 4, "hot": "50%"}]

    def tokens(machine, unit, **workload):
        placement = {"units": ["cpu0", "cpu1"] if machine == "sim" else ["cpu0"], "unit": unit, "splits": splits}
        tree = {"experiment": "normed", "machine": machine, "model": {"gguf": str(case.base)}, "memory": {"ffn_in_dram": "60%"},
                "engine": {"policy": "neuron_cluster", "placement": placement, "ffn": {"clusters": {"hot_cluster": 32}},
                           "graph": {"activations": activations}, "prefill_chunk": 4},
                "workload": {"prompt": "The quick", "output_tokens": 8, "stop_at_eos": False} | workload}
        result = vitro.run(tree | ({"device": DEVICE} if machine == "sim" else {}))
        return result.data.get("sequences", result["tokens"])

    for workload in ({}, {"batch": 3}):
        there = tokens("sim", "npu", **workload)
        assert there == tokens("sim", "cpu7", **workload) == tokens("host", "cpu1", **workload)
    if activations == "f32":
        greedy, gap = oracle.greedy(case.model, "The quick", 8)
        assert gap < 1e-3 or tokens("sim", "npu") == greedy
