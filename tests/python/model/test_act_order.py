"""Models in GPTQ with act order (desc_act) keep their codes: columns stand group by group, and a tensor says which input each is for."""
from dataclasses import replace

import numpy as np
import oracle
import pytest
import vitro
from adapters import merged, random_adapter, write_adapter
from conftest import ROOT
from exporter import LLAMA, QWEN2, export, write_safetensors
from test_convert import TEXT, types_of
from vitro.errors import ConfigError
from vitro.model.convert import convert

ORDERED = {  # as most published models are: desc_act: true
    "each_its_own": (LLAMA, dict(group=32, act_order=True)), "shared_by_input": (LLAMA, dict(group=32, act_order="shared")),
    "qwen2_8_bits": (QWEN2, dict(bits=8, group=64, act_order="shared")), "2_bits": (LLAMA, dict(bits=2, group=64, act_order=True)),
    "with_the_head": (replace(LLAMA, vocab=264), dict(group=32, act_order=True, head=True)),  # whole words of its outputs
}


FLOAT = {"engine.products.numerics": "float"}  # the default, int8, rounds activations


@pytest.fixture(scope="module", params=ORDERED)
def ordered(request, tmp_path_factory):
    """-> (the oracle's model, the file with codes, the file with float32 values)"""
    folder = tmp_path_factory.mktemp(request.param)
    shape, settings = ORDERED[request.param]
    model, _, _ = export(folder, shape, seed=len(request.param), **settings)
    codes, values, count = folder / "codes.gguf", folder / "values.gguf", 7 * shape.layers + settings.get("head", False)
    assert {key: found for key, found in convert(folder, codes).items() if key in ("matrices", "ordered", "as_values")} == {
        "matrices": count, "ordered": count, "as_values": 0}
    assert ("output.order" in types_of(codes)) == settings.get("head", False)
    convert(folder, values, act_order="f32")
    export(folder, shape, seed=len(request.param), **settings | {"act_order": False})
    convert(folder, folder / "plain.gguf")
    assert 0 < codes.stat().st_size - (folder / "plain.gguf").stat().st_size < 20_000, "the size of codes, and a word for each input"
    return model, codes, values


@pytest.mark.parametrize("engine", [{}, {"engine.threads": 2}, {"engine.graph.fuse": "none"}, {"engine.graph.activations": "f16"},
                                    {"engine.policy": "mmap", "engine.threads": 2}], ids=str)
def test_act_order_as_codes_has_the_likelihood_of_the_values(ordered, tmp_path, engine):
    model, codes, values = ordered
    text = tmp_path / "text.txt"
    text.write_text(TEXT)
    found, expected = (vitro.perplexity(path, text, overrides=FLOAT | engine)["nll"] for path in (codes, values))
    tolerance = 2e-3 if "engine.graph.activations" in engine else 1e-5
    assert found == pytest.approx(expected, abs=tolerance)
    assert found == pytest.approx(oracle.nll(model, TEXT), abs=max(tolerance, 1e-4))


def test_act_order_in_int8_is_as_near_as_codes_without_it(ordered, tmp_path):
    model, codes, _ = ordered
    text = tmp_path / "text.txt"
    text.write_text(TEXT)
    found = vitro.perplexity(codes, text)["nll"]
    assert found == pytest.approx(oracle.nll(model, TEXT), abs=0.05)


def test_both_machines_generate_the_tokens_of_act_order(ordered):
    """In sim a core gathers for the NPU, which has no such operator."""
    model, codes, _ = ordered
    expected, gap = oracle.greedy(model, "The quick", 6)
    assert gap > 1e-3
    accelerated = {"policy": "npu_dense", "units": ["cpu1", "cpu2", "npu"]}
    for machine, engine in (("host", {"threads": 2}), ("sim", {"threads": 2}), ("sim", accelerated)):
        result = vitro.run({"experiment": "gptq", "machine": machine, "model": {"gguf": str(codes)},
                            "engine": engine | {"products": {"numerics": "float"}}, "device": str(ROOT / "configs/devices/oneplus12.yaml"),
                            "workload": {"prompt": "The quick", "output_tokens": 6, "stop_at_eos": False}})
        assert result["tokens"] == expected, (machine, engine)


def test_neuron_clusters_put_the_columns_of_act_order_back(ordered, tmp_path):
    """Bundles hold Gate, Up and Down by neuron in q8_0, so they agree with those of the values to the rounding of that format."""
    model, codes, values = ordered
    text = tmp_path / "text.txt"
    text.write_text(TEXT)
    clusters = FLOAT | {"engine.policy": "neuron_cluster"}
    found, expected = (vitro.perplexity(path, text, overrides=clusters)["nll"] for path in (codes, values))
    assert found == pytest.approx(expected, abs=5e-3)
    assert found == pytest.approx(oracle.nll(model, TEXT), abs=1e-2)


def test_adapters_are_those_of_the_matrix_as_it_was(ordered, tmp_path):
    model, codes, _ = ordered
    text, adapter = tmp_path / "text.txt", random_adapter(model.weights, seed=3)
    text.write_text(TEXT)
    file = write_adapter(adapter, tmp_path / "adapter.gguf", model.shape.arch)
    expected = oracle.nll(merged(model, adapter), TEXT)
    assert abs(expected - oracle.nll(model, TEXT)) > 0.01
    lora = ["engine.products.numerics=float", f"engine.lora.adapters=[{{name: a, file: {file}}}]", "workload.adapter=a"]
    for engine, tolerance in (("lora.order=a_bx", 1e-4), ("lora.order=ab_x", 1e-4), ("policy=neuron_cluster", 1e-2)):
        found = vitro.perplexity(codes, text, overrides=[*lora, f"engine.{engine}"])["nll"]
        assert found == pytest.approx(expected, abs=tolerance), engine
    vitro.merge(codes, file, tmp_path / "merged.gguf", format="f32")
    assert vitro.perplexity(tmp_path / "merged.gguf", text, overrides=FLOAT)["nll"] == pytest.approx(expected, abs=1e-4)


def test_a_damaged_order_is_named_before_a_run(ordered, tmp_path, native):
    _, codes, _ = ordered
    kind, dims, begin = types_of(codes)["blk.0.ffn_down.order"]
    assert kind == 26 and dims == [192]
    raw = bytearray(codes.read_bytes())
    assert sorted(np.frombuffer(raw, np.int32, 192, begin)) == list(range(192))
    raw[begin:begin + 4] = raw[begin + 4:begin + 8]
    (tmp_path / "bad.gguf").write_bytes(raw)
    answer = native("run", ROOT / "experiments/quickstart.yaml", "--machine", "host", "--set", f"model.gguf={tmp_path / 'bad.gguf'}")
    assert answer.code == 2 and all(word in answer.err for word in ("bad.gguf", "blk.0.ffn_down.order", "entry 1 is")), answer.err


def test_gptq_of_a_model_with_act_order_is_refused(ordered, tmp_path):
    _, codes, _ = ordered
    text = tmp_path / "text.txt"
    text.write_text(TEXT * 20)
    with pytest.raises(ConfigError, match="attn_q.order: columns stand in an order of their own"):
        vitro.quantize(codes, tmp_path / "out.gguf", "w2g32", gptq=vitro.Gptq(text))


def test_groups_of_unequal_size_are_written_as_values(tmp_path):
    model, packed, tensors = export(tmp_path, group=64)
    name = "model.layers.1.mlp.gate_proj"
    codes, scales, zeros = packed[name]
    groups = np.where(np.arange(codes.shape[1]) == 3, 1, tensors[f"{name}.g_idx"]).astype(np.int32)
    tensors[f"{name}.g_idx"] = groups
    write_safetensors(tmp_path / "model.safetensors", tensors)
    with pytest.raises(ConfigError, match="gate_proj.g_idx: group 0 has 63 inputs"):
        convert(tmp_path, tmp_path / "model.gguf")
    found = convert(tmp_path, tmp_path / "model.gguf", act_order="f32")
    assert found["as_values"] == 1 and found["matrices"] == 7 * LLAMA.layers - 1
    expected = scales.astype(np.float32)[:, groups] * (codes - zeros[:, groups]).astype(np.float32)
    kind, dims, begin = types_of(tmp_path / "model.gguf")["blk.1.ffn_gate.weight"]
    assert kind == 0 and dims == [codes.shape[1], codes.shape[0]]
    values = np.frombuffer((tmp_path / "model.gguf").read_bytes(), np.float32, expected.size, begin)
    assert (values.reshape(expected.shape) == expected).all()


@pytest.mark.parametrize("group, values", [(32, "f32"), (64, "f16")])
def test_groups_of_act_order_are_written_as_values(tmp_path, group, values):
    model, _, _ = export(tmp_path, group=group, act_order=True)
    with pytest.raises(ConfigError, match="--act-order: 'q4'"):
        convert(tmp_path, tmp_path / "model.gguf", act_order="q4")
    assert not list(tmp_path.glob("*.gguf*"))
    found = convert(tmp_path, tmp_path / "model.gguf", act_order=values)
    assert found["matrices"] == 0 and found["as_values"] == 7 * LLAMA.layers
    text = tmp_path / "text.txt"
    text.write_text(TEXT)
    tolerance = 1e-4 if values == "f32" else 5e-4  # 11 bits
    assert vitro.perplexity(tmp_path / "model.gguf", text)["nll"] == pytest.approx(oracle.nll(model, TEXT), abs=tolerance)
