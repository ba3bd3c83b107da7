"""Policies compute the tokens of the dense one also where something stands beside the experts, and however a router weighs them."""
import oracle
import pytest
import vitro
from conftest import ROOT
from oracle import Shape

SHAPES = {
    "qwen2moe": Shape(arch="qwen2moe", half_split=True, qkv_bias=True, weights="of_all", experts=6, experts_used=3, ffn=32, plain_ffn=96,
                      shared_ffn=96, shared_gate=True),
    "olmoe": Shape(arch="olmoe", half_split=True, qk_norm_whole=True, kv_heads=4, weights="of_all", experts=8, experts_used=4, ffn=32),
    "phimoe": Shape(arch="phimoe", half_split=True, layer_norm=True, qkv_bias=True, all_biases=True, weights="sparse_mixer", experts=8,
                    experts_used=2, ffn=32, original_context=32, attn_factor=1.19),
    "deepseek": Shape(arch="deepseek", layers=3, weights="of_all", experts=6, experts_used=2, ffn=32, plain_ffn=96, shared_count=2,
                      dense_layers=1),
}
PROMPT = "The quick brown fox jumps over it."


@pytest.fixture(scope="module", params=SHAPES, ids=str)
def mixture(request, tmp_path_factory):
    shape = SHAPES[request.param]
    path = tmp_path_factory.mktemp(request.param) / "model.gguf"
    oracle.write_gguf(oracle.random_model(shape, seed=3), path)
    return shape, path


def tokens(path, machine, engine, **more):
    return vitro.run({
        "experiment": "mixture", "machine": machine, "device": str(ROOT / "configs" / "devices" / "m2_ultra.yaml"),
        "model": {"gguf": str(path)}, "engine": {"units": ["cpu0", "cpu1"], "kv_format": "f16", "prefill_chunk": 16, **engine},
        "workload": {"prompt": PROMPT, "output_tokens": 8, "stop_at_eos": False}, **more,
    })["tokens"]


@pytest.fixture(scope="module")
def dense(mixture):
    return tokens(mixture[1], "host", {"units": ["cpu0"]})


@pytest.mark.parametrize("machine", ["sim", "host"])
@pytest.mark.parametrize("engine", [{"policy": "mmap"}, {"graph": {"fuse": "none"}}, {"prefill_chunk": 5}], ids=str)
def test_weights_that_come_and_graphs_that_are_cut_otherwise(mixture, dense, machine, engine):
    assert tokens(mixture[1], machine, engine) == dense


@pytest.mark.parametrize("machine", ["sim", "host"])
def test_neuron_by_neuron(mixture, dense, machine):
    assert tokens(mixture[1], machine, {"policy": "neuron_cluster"}, memory={"budget": "64 MiB"}) == dense


@pytest.mark.parametrize("engine", [{"policy": "llmflash"}, {"policy": "neuron_cluster", "weights": {"kind": "paged"}},
                                    {"policy": "neuron_cluster", "weights": {"kind": "bundles", "experts": {"neurons_ahead": "64 KiB"}}}],
                         ids=str)
def test_neurons_that_come_and_go(mixture, dense, engine):
    assert tokens(mixture[1], "sim", engine, memory={"ffn_in_dram": "60%"}) == dense


@pytest.mark.parametrize("machine, unit", [("sim", "ane0"), ("host", "cpu1")])
def test_experts_on_units(mixture, dense, machine, unit):
    shape, path = mixture
    loads = [[1 / shape.experts] * shape.experts] * (shape.layers - (shape.dense_layers or 0))
    moe = {"units": [unit], "loads": loads, "overflow": "cpu", "graph_rows": 8}
    assert tokens(path, machine, {"policy": "npumoe", "moe": moe}) == dense


# Rounding moved a likelihood of 7 by up to 0.04 here.
@pytest.mark.parametrize("options", [["--scheme", "q8_0"], ["--scheme", "w4g64z", "--method", "gptq"]], ids=["q8_0", "gptq"])
def test_rounded_files_have_about_the_same_likelihood(native, mixture, tmp_path, options):
    text, rounded = tmp_path / "text.txt", tmp_path / "rounded.gguf"
    text.write_text("The quick brown fox jumps over the lazy dog, again and again. " * 8)
    calibration = ["--calibration", text] if "gptq" in options else []
    answer = native("quantize", mixture[1], rounded, *options, *calibration)
    assert answer.code == 0, answer.err
    difference = vitro.perplexity(rounded, text)["nll"] - vitro.perplexity(mixture[1], text)["nll"]
    assert 0 < abs(difference) < 0.1
