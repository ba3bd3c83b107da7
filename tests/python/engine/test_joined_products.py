"""Models that keep q, k and v in one matrix, and Gate and Up in another (Phi-3): whatever takes the products apart computes the oracle's
tokens, and so does attention in parts, wherever keys and values are."""
from dataclasses import replace

import oracle
import pytest
import vitro
from adapters import merged, random_adapter, write_adapter
from conftest import ROOT
from oracle import Shape

PHI3 = Shape(arch="phi3", half_split=True, joined=True, kv_heads=4, activation="relu", ffn=256)
PROMPT, COUNT = "The quick brown", 8
DEVICE = str(ROOT / "configs" / "devices" / "oneplus12.yaml")


@pytest.fixture(scope="module")
def phi3(tmp_path_factory, has_native):
    model = oracle.random_model(PHI3, seed=3)
    path = tmp_path_factory.mktemp("phi3") / "model.gguf"
    oracle.write_gguf(model, path)
    expected, gap = oracle.greedy(model, PROMPT, COUNT)
    assert gap > 1e-3, "choose another seed"
    return path, expected


def run(path, machine, engine, **more):
    tree = {"experiment": "joined", "machine": machine, "model": {"gguf": str(path)}, "engine": engine,
            "workload": {"prompt": PROMPT, "output_tokens": COUNT, "stop_at_eos": False}} | more
    return vitro.run(tree | ({"device": DEVICE} if machine == "sim" else {}))


@pytest.mark.parametrize("machine", ["host", "sim"])
@pytest.mark.parametrize("engine", [
    {"policy": "mmap", "threads": 2},
    {"policy": "neuron_cluster"},
    {"weights": {"kind": "bundles"}, "ffn": {"kind": "clusters"}, "graph": {"fuse": "none"}},
    {"kv_dram_tokens": 4, "graph": {"fuse": "none"}},
    {"kv_dram_tokens": 4, "threads": 2, "graph": {"fuse": "geometry"}},
], ids=str)
def test_tokens_are_the_oracles(phi3, machine, engine):
    path, expected = phi3
    assert run(path, machine, engine)["tokens"] == expected


@pytest.mark.parametrize("machine", ["host", "sim"])
@pytest.mark.parametrize("scheme", ["q8_0", "q4_0", "q4_k"])
def test_rounded_weights_give_fused_and_unfused_graphs_the_same_tokens(phi3, tmp_path, machine, scheme):
    rounded = tmp_path / "rounded.gguf"
    vitro.quantize(phi3[0], rounded, scheme)
    tokens = [run(rounded, machine, {"activations": "int8", "threads": 2, "graph": {"fuse": fuse}})["tokens"] for fuse in ("none", "all")]
    assert tokens[0] == tokens[1]


def test_what_is_fused_moves_nothing_and_keeps_scores_to_itself(phi3):
    path, _ = phi3
    moved = {fuse: run(path, "host", {"graph": {"fuse": fuse}})["metrics"] for fuse in ("none", "geometry", "all")}
    rows = len(oracle.tokenize(PROMPT)) + 1 + COUNT - 1
    width, heads = 3 * PHI3.width + 2 * PHI3.ffn, PHI3.heads
    elements = rows * PHI3.layers * (width + 12 * PHI3.width)  # slices; then q, k, v and the result three times each
    assert moved["none"]["moves"]["read_bytes"] == 4 * elements
    assert moved["geometry"]["moves"]["calls"] == 0
    scores = 4 * 2 * PHI3.layers * heads * rows * (rows + 1) // 2
    assert moved["none"]["scores"] == moved["geometry"]["scores"] == {"read_bytes": scores, "written_bytes": scores}
    assert "moves" not in moved["all"] and "scores" not in moved["all"]


@pytest.mark.parametrize("order", ["a_bx", "ab_x"])
@pytest.mark.parametrize("machine", ["host", "sim"])
def test_an_adapter_of_gate_and_up_as_one_goes_with_neurons(phi3, machine, order, tmp_path):
    model = oracle.random_model(PHI3, seed=3)
    adapter = random_adapter(model.weights, ("attn_qkv", "ffn_up", "ffn_down"), seed=1)
    lora = {"adapters": [{"name": "a", "file": str(write_adapter(adapter, tmp_path / "adapter.gguf", "phi3"))}], "order": order}
    expected, gap = oracle.greedy(merged(model, adapter), PROMPT, COUNT)
    assert gap > 1e-3 and expected != phi3[1]
    splits = [{"batch": 1, "hot": "25%", "attention": "50%", "head": "50%"}]
    hot = {"units": ["cpu0"], "placement": {"unit": {"sim": "npu", "host": "cpu1"}[machine], "splits": splits}}
    for engine in ({"threads": 2}, {"weights": {"kind": "dram"}}, {"ffn": {"kind": "dense"}}, hot):
        result = run(phi3[0], machine, {"policy": "neuron_cluster", "lora": lora} | engine,
                     workload={"prompt": PROMPT, "output_tokens": COUNT, "stop_at_eos": False, "adapter": "a"})
        assert result["tokens"] == expected, engine


def test_scores_without_room_are_refused(tmp_path):
    long = tmp_path / "long.gguf"
    oracle.write_gguf(oracle.random_model(replace(PHI3, context=100_000), seed=3), long)
    with pytest.raises(vitro.ConfigError, match=r"memory.budget: 12 MiB is too little: no room for activations \(scores\).*that works is"):
        run(long, "host", {"graph": {"fuse": "none"}, "prefill_chunk": 64}, memory={"budget": "12 MiB"},
            workload={"prompt_tokens": 7000, "output_tokens": 1})


@pytest.mark.parametrize("policy", ["dense", "qnn", "gpu_dense"])
def test_a_model_of_shapes_runs_on_every_kind_of_unit(policy, has_native):
    model = str(ROOT / "configs" / "models" / "phi-3-mini.yaml")
    result = vitro.run({"experiment": "joined", "machine": "sim", "device": DEVICE, "model": model,
                        "engine": {"policy": policy, "numerics": False},
                        "workload": {"prompt_tokens": 16, "output_tokens": 3, "stop_at_eos": False}})
    assert result["metrics"]["decode_tokens_per_s"] > 0


@pytest.mark.all
def test_gptq_rounds_joined_matrices(native, phi3, tmp_path):
    text, rounded = tmp_path / "text.txt", tmp_path / "rounded.gguf"
    text.write_text("The quick brown fox jumps over the lazy dog, again and again. " * 8)
    answer = native("quantize", phi3[0], rounded, "--scheme", "w4g64z", "--method", "gptq", "--calibration", text)
    assert answer.code == 0, answer.err
    difference = vitro.perplexity(rounded, text)["nll"] - vitro.perplexity(phi3[0], text)["nll"]
    assert 0 < abs(difference) < 0.3
