"""`vitro predictors`: built from a model's own gates, and what they cost and save in a run."""
import json
from dataclasses import replace

import gguf
import numpy as np
import oracle
import pytest
import vitro
from conftest import ROOT
from vitro.model.predictors import Options, act, low_rank, make_predictors

MODELS = ROOT / "configs" / "models" / "embedded"
RELU, MIXTURE, TEXT = MODELS / "stories-reglu-3m.f16.gguf", MODELS / "stories-moe-6m.f16.gguf", MODELS / "eval.txt"
# As in decoding: token by token, and every gate beside the predictor's word.
DECODING = {"engine.policy": "neuron_cluster", "engine.prefill_chunk": 1}


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """-> what to learn from, what to be judged by: two parts of one text that have no sentence in common."""
    folder, text = tmp_path_factory.mktemp("texts"), TEXT.read_text()
    middle = text.index("\n", 3 * len(text) // 4)
    parts = folder / "learn.txt", folder / "judge.txt"
    parts[0].write_text(text[:middle])
    parts[1].write_text(text[middle:middle + 3000])
    return parts


def made(native, folder, model, text, *args):
    answer = native("predictors", model, text, "-o", "out.gguf", "--json", *args)
    assert answer.code == 0, answer.err
    return answer.json["layers"], folder / "out.gguf"


def test_a_product_of_low_rank_is_the_best_for_its_inputs():
    rng = np.random.default_rng(1)
    weights, inputs = rng.standard_normal((60, 32)), rng.standard_normal((500, 32)) * np.geomspace(10, 0.1, 32)
    down, up = low_rank(weights, inputs, 8)
    assert down.shape == (8, 32) and up.shape == (60, 8)

    def error(product):
        return np.square(inputs @ (product - weights).T).sum()
    u, s, v = np.linalg.svd(weights)
    plain = (u[:, :8] * s[:8]) @ v[:8]
    assert error(up.astype(float) @ down) < 0.5 * error(plain), "the inputs were not looked at"
    down, up = low_rank(weights, inputs, 32)
    assert error(up.astype(float) @ down) < 1e-5 * np.square(inputs @ weights.T).sum()


def test_predictors_of_the_gates_save_reads_and_hardly_change_what_the_model_says(native, tmp_path, texts):
    layers, path = made(native, tmp_path, RELU, texts[0])
    assert len(layers) == 4
    for layer in layers:
        assert layer["recall"] > 0.95 and layer["active"] < layer["precision"] < 1
    exact = vitro.perplexity(RELU, texts[1], overrides=DECODING)
    guessed = vitro.perplexity(path, texts[1], overrides=DECODING | {"engine.clusters.measure": True})
    assert abs(guessed["nll"] - exact["nll"]) < 0.01 * exact["nll"]
    assert guessed["nll"] != exact["nll"], "nothing was left out"
    assert guessed["predictor_recall"] > 0.95
    assert layers[0]["active"] < guessed["predictor_precision"] < 1
    assert "predictor_recall" not in exact


def test_a_run_knows_its_precision_and_when_it_measures_its_recall(native, tmp_path, texts):
    _, path = made(native, tmp_path, RELU, texts[0], "--rank", "128")
    run = {"experiment": "predicted", "machine": "host", "model": {"gguf": str(path)},
           "engine": {"policy": "neuron_cluster", "threads": 1, "clusters": {"measure": True}}, "memory": {"ffn_in_dram": "50%"},
           "workload": {"prompt": "Once upon a time", "output_tokens": 20, "stop_at_eos": False}}
    measured = vitro.run(run)
    run["engine"]["clusters"]["measure"] = False
    plain = vitro.run(run)
    assert plain["tokens"] == measured["tokens"]
    assert plain["metrics"]["predictor_recall"] is None and measured["metrics"]["predictor_recall"] > 0.9
    assert plain["metrics"]["predictor_precision"] == measured["metrics"]["predictor_precision"]
    assert plain["metrics"]["flash_bytes_read"]["decode"] < measured["metrics"]["flash_bytes_read"]["decode"]


def test_predictors_of_a_gate_with_columns_in_an_order_are_those_of_the_gate_without(tmp_path):
    """A predictor reads the input as it is in a run, whatever order the Gate's columns have in the file."""
    model, rng = oracle.random_model(oracle.Shape(activation="relu"), seed=4), np.random.default_rng(2)
    ordered = replace(model, weights=dict(model.weights))
    for layer in range(model.shape.layers):
        order = rng.permutation(model.shape.width).astype(np.int32)
        ordered.weights[f"blk.{layer}.ffn_gate.weight"] = np.ascontiguousarray(model.weights[f"blk.{layer}.ffn_gate.weight"][:, order])
        ordered.weights[f"blk.{layer}.ffn_gate.order"] = order
    text, made = tmp_path / "text.txt", {}
    text.write_text("".join(chr(c) for c in rng.integers(97, 123, 300)))
    for name, weights in (("plain", model), ("ordered", ordered)):
        oracle.write_gguf(weights, tmp_path / f"{name}.gguf")
        rows = make_predictors(tmp_path / f"{name}.gguf", text, tmp_path / f"{name}.out.gguf", Options(rank=16))
        tensors = gguf.GGUFReader(tmp_path / f"{name}.out.gguf").tensors
        made[name] = rows, {tensor.name: tensor.data.astype(np.float32) for tensor in tensors if ".fc" in tensor.name}
    (plain_rows, plain), (rows, found) = made["plain"], made["ordered"]
    for part in ("fc1", "fc2"):  # the first layer sees the same inputs, bit by bit
        assert (found[f"blk.0.{part}.weight"] == plain[f"blk.0.{part}.weight"]).all(), part
    for layer in range(model.shape.layers):
        product, expected = (of[f"blk.{layer}.fc2.weight"] @ of[f"blk.{layer}.fc1.weight"] for of in (found, plain))
        assert np.abs(product - expected).max() < 0.01 * np.abs(expected).max()
        assert rows[layer]["recall"] == pytest.approx(plain_rows[layer]["recall"], abs=0.01)
    judged = [vitro.perplexity(tmp_path / f"{name}.out.gguf", text, overrides=DECODING)["nll"] for name in made]
    assert judged[1] == pytest.approx(judged[0], abs=1e-2)


@pytest.mark.all
def test_thresholds_make_a_silu_model_sparse(native, tmp_path, texts):
    layers, path = made(native, tmp_path, MIXTURE, texts[0], "--rank", "0", "--sparsity", "0.3")
    assert all(layer["active"] == pytest.approx(0.7, abs=0.05) and layer["recall"] is None for layer in layers)
    exact = vitro.perplexity(MIXTURE, texts[1], overrides=DECODING)
    sparse = vitro.perplexity(path, texts[1], overrides=DECODING)
    everything = vitro.perplexity(path, texts[1], overrides=DECODING | {"engine.clusters.threshold": 0})
    assert everything["nll"] == exact["nll"]
    assert exact["nll"] != sparse["nll"] < exact["nll"] * 1.05


@pytest.mark.all
def test_predictors_of_a_silu_mixture_name_what_is_above_the_threshold(native, tmp_path, texts):
    layers, path = made(native, tmp_path, MIXTURE, texts[0], "--rank", "96", "--recall", "0.9")
    for layer in layers:
        assert layer["recall"] > 0.8 and layer["precision"] > layer["active"]
    measured = vitro.perplexity(path, texts[1], overrides=DECODING | {"engine.clusters.measure": True})
    assert 0.8 < measured["predictor_recall"] < 1


def test_activations_are_those_of_the_kernels():
    gate = np.array([-2.0, 0.0, 3.0])
    assert act(gate, "relu").tolist() == [0, 0, 3] and act(gate, "relu_squared").tolist() == [0, 0, 9]
    assert act(gate, "silu") == pytest.approx([-0.238406, 0, 2.857722], rel=1e-5)
    assert act(gate, "gelu") == pytest.approx([-0.045402, 0, 2.996363], rel=1e-4)


@pytest.mark.parametrize("args, part", [
    ((RELU, TEXT, "-o", "out.gguf", "--sparsity", "0.5"), "--sparsity: relu has zeros already"),
    ((RELU, "nowhere.txt", "-o", "out.gguf"), "nowhere.txt: no such file"),
    ((TEXT, TEXT, "-o", "out.gguf"), "not a GGUF file"),
])
def test_bad_input_is_one_message(native, tmp_path, args, part):
    answer = native("predictors", *args)
    assert answer.code == 2 and not answer.out and part in answer.err
    assert answer.err.count("\n") == 1 and not (tmp_path / "out.gguf").exists()


@pytest.mark.all
def test_the_quantisation_of_an_npu_is_ordered_as_the_paper_says(native, tmp_path):
    """PowerInfer-2, 7.6: groups of 32 are closest to the model, one scale per row furthest, outliers in INT8 between."""
    for model in (RELU, MIXTURE):
        nll = {}
        for scheme in ("q4_0", "npu_int4_outliers", "npu_int4_channel"):
            assert native("quantize", model, "q.gguf", "--scheme", scheme).code == 0
            nll[scheme] = json.loads(native("perplexity", "q.gguf", TEXT, "--json").out)["nll"]
        assert nll["q4_0"] < nll["npu_int4_outliers"] < nll["npu_int4_channel"], (model.name, nll)
