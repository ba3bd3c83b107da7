"""Files of mixtures that do not fit themselves are refused: exit code 2, one message with file, tensor or key, and what was expected."""
from dataclasses import replace

import gguf
import numpy as np
import oracle
import pytest
from oracle import Shape

QWEN = Shape(arch="qwen2moe", half_split=True, qkv_bias=True, weights="of_all", experts=4, experts_used=2, ffn=32, plain_ffn=96,
             shared_ffn=64, shared_gate=True)
PHI = Shape(arch="phimoe", half_split=True, layer_norm=True, qkv_bias=True, all_biases=True, weights="sparse_mixer", experts=4,
            experts_used=2, ffn=32, original_context=32)
DEEPSEEK = Shape(arch="deepseek", weights="of_all", experts=4, experts_used=2, ffn=32, plain_ffn=96, shared_count=2, dense_layers=1)
OLMOE = Shape(arch="olmoe", half_split=True, qk_norm_whole=True, kv_heads=4, weights="of_all", experts=4, experts_used=2, ffn=32)


def without(name):
    return lambda weights: weights.pop(name)


def shaped(name, *shape):
    return lambda weights: weights.__setitem__(name, np.zeros(shape, weights[name].dtype))


def renamed(name, other):
    return lambda weights: weights.__setitem__(other, weights.pop(name))


BAD_TENSORS = [
    (QWEN, without("blk.1.ffn_gate_inp_shexp.weight"),
     "blk.1.ffn_gate_inp_shexp.weight: the tensor is missing (expected it with shape [64])"),
    (QWEN, without("blk.0.ffn_up_exps.weight"), "blk.0.ffn_up_exps.weight: the tensor is missing (expected it with shape [64, 32, 4])"),
    (QWEN, shaped("blk.0.ffn_down_exps.weight", 3, 64, 32),
     "blk.0.ffn_down_exps.weight: the tensor has shape [32, 64, 3] (expected [32, 64, 4])"),
    (QWEN, shaped("blk.0.ffn_gate_inp.weight", 5, 64), "blk.0.ffn_gate_inp.weight: the tensor has shape [64, 5] (expected [64, 4])"),
    (QWEN, shaped("blk.1.ffn_down_shexp.weight", 64, 32), "blk.1.ffn_down_shexp.weight: the tensor has shape [32, 64] (expected [64, 64])"),
    (PHI, without("output_norm.bias"), "output_norm.bias: the tensor is missing (expected it with shape [64])"),
    (PHI, shaped("blk.0.attn_norm.bias", 32), "blk.0.attn_norm.bias: the tensor has shape [32] (expected [64])"),
    (PHI, without("rope_factors_short.weight"), "rope_factors_short.weight: the tensor is missing (expected it with shape [8])"),
    (DEEPSEEK, without("blk.0.ffn_gate.weight"), "blk.0.ffn_gate.weight: the tensor is missing (expected it with shape [64, 96])"),
    (DEEPSEEK, renamed("blk.1.ffn_up_exps.weight", "blk.1.ffn_up.weight"), "blk.1.ffn_up_exps.weight: the tensor is missing"),
    (OLMOE, shaped("blk.0.attn_k_norm.weight", 16), "blk.0.attn_k_norm.weight: the tensor has shape [16] (expected [64])"),
]


@pytest.mark.parametrize("shape, change, message", BAD_TENSORS, ids=[message.split(":")[0] for _, _, message in BAD_TENSORS])
def test_tensors(native, tmp_path, shape, change, message):
    model = oracle.random_model(shape, seed=1)
    change(model.weights)
    refused(native, model, tmp_path, message)


@pytest.mark.parametrize("shape, message", [
    (replace(QWEN, arch="qwen9moe"), 'general.architecture: "qwen9moe" is not supported (expected one of: llama, qwen2, qwen3, bitnet,'),
    (replace(QWEN, experts_used=5), "qwen2moe.expert_used_count: is 5 (expected up to qwen2moe.expert_count, 4)"),
    (replace(DEEPSEEK, dense_layers=3), "deepseek.leading_dense_block_count: is 3 (expected 0 to 2)"),
], ids=["architecture", "chosen", "dense"])
def test_metadata(native, tmp_path, shape, message):
    refused(native, oracle.random_model(shape, seed=1), tmp_path, message)


def test_a_gate_that_is_no_softmax(native, tmp_path, monkeypatch):
    def with_gate(shape, writer, original=oracle.mixture_metadata):
        original(shape, writer)
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)

    monkeypatch.setattr(oracle, "mixture_metadata", with_gate)
    refused(native, oracle.random_model(QWEN, seed=1), tmp_path, "qwen2moe.expert_gating_func: is 2 (expected 1, a softmax)")


def refused(native, model, folder, message):
    path = folder / "model.gguf"
    oracle.write_gguf(model, path)
    answer = native("graph", path)
    assert answer.code == 2 and answer.out == ""
    assert f"{path}: {message}" in answer.err.replace("\n", " "), answer.err


@pytest.mark.parametrize("engine, message", [
    ("units: [cpu0], placement: {unit: cpu1, splits: [{batch: 1, hot_by_layer: [[10%, 20%, 30%, 40%], 10%]}]}",
     "splits.hot_by_layer: has 4 shares for layer 0 (expected 1)"),
    ("policy: npumoe, units: [cpu0, cpu1], moe: {units: [cpu1], loads: [[1, 0, 0, 0], [1, 0, 0, 0]]}",
     "engine.ffn.experts.loads: has 2 layers, but the model has 1 (expected the loads of this model)"),
], ids=["shares", "graphs"])
def test_what_policies_say_of_a_layer_without_experts(native, tmp_path, engine, message):
    path = tmp_path / "model.gguf"
    oracle.write_gguf(oracle.random_model(DEEPSEEK, seed=1), path)
    experiment = native.write(f"experiment: dense\nmachine: host\nmodel: {{gguf: {path}}}\nengine: {{{engine}}}\n"
                              "workload: {prompt: a, output_tokens: 2}\n")
    answer = native("run", experiment)
    assert answer.code == 2
    assert message in " ".join(answer.err.split()), answer.err
