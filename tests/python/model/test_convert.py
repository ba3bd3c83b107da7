"""Models in GPTQ, written by a packer of the test's own, become files whose matrices hold the same codes and whose likelihood is that
of the dequantised float model."""
import json

import gguf
import numpy as np
import oracle
import pytest
import vitro
from conftest import ROOT
from exporter import LLAMA, QWEN2, export, write_safetensors
from vitro.errors import ConfigError
from vitro.model.convert import convert

TEXT = "The quick brown fox jumps over the lazy dog, again and again. 0123456789"
CASES = {  # shape, bits, group, symmetric, form, the format of a query matrix
    "llama_4_bits": (LLAMA, 4, 32, False, "gptq", 0x56544820),
    "llama_4_bits_symmetric": (LLAMA, 4, 64, True, "gptq", 0x56544040),
    "llama_8_bits": (LLAMA, 8, 64, False, "gptq", 0x56548840),
    "qwen2_4_bits_per_channel": (QWEN2, 4, -1, False, "gptq_v2", 0x56544c80),
    "qwen2_8_bits_per_channel_symmetric": (QWEN2, 8, -1, True, "gptq", 0x56548c80),
    "llama_4_bits_of_gptqmodel": (LLAMA, 4, 32, False, "gptqmodel", 0x56544820),
    "llama_2_bits": (LLAMA, 2, 32, False, "gptq_v2", 0x56542820),
    "llama_2_bits_symmetric": (LLAMA, 2, 64, True, "gptq", 0x56542040),
    "qwen2_2_bits_per_channel": (QWEN2, 2, -1, False, "gptqmodel", 0x56542880),
}


@pytest.fixture(scope="module", params=CASES)
def case(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    *how, type_id = CASES[request.param]
    model, packed, _ = export(folder, *how, seed=len(request.param))
    path = folder / "model.gguf"
    assert convert(folder, path)["matrices"] == 7 * LLAMA.layers
    return model, packed, path, type_id


def types_of(path):
    """The header alone: gguf's reader knows no private types, so they are taken from the tensors' infos."""
    found = {}

    class Reader(gguf.GGUFReader):
        def _build_tensors(self, start_offs, fields):
            for field in fields:
                _, name, dims, shape, kind, offset = field.parts
                found[bytes(name).decode()] = (int(kind[0]), [int(n) for n in shape], start_offs + int(offset[0]))

    Reader(path)
    return found


def test_likelihood_is_that_of_the_dequantised_model(case, tmp_path):
    model, _, path, _ = case
    text = tmp_path / "text.txt"
    text.write_text(TEXT)
    expected = oracle.nll(model, TEXT)
    exact = vitro.perplexity(path, text, overrides={"engine.products.numerics": "float"})["nll"]
    assert exact == pytest.approx(expected, abs=1e-4)
    # The default, int8, rounds activations and moves it a little: tests of the contract have the bound, here is whether the kernels take
    # these formats.
    rounded = vitro.perplexity(path, text)["nll"]
    assert rounded == pytest.approx(expected, abs=0.05) and rounded != exact


def test_both_machines_generate_the_oracles_tokens(case):
    model, _, path, _ = case
    expected, gap = oracle.greedy(model, "The quick", 6)
    assert gap > 1e-3
    for machine in ("host", "sim"):
        result = vitro.run({"experiment": "gptq", "machine": machine, "model": {"gguf": str(path)},
                            "engine": {"threads": 1, "products": {"numerics": "float"}},
                            "device": str(ROOT / "configs/devices/oneplus12.yaml"),
                            "workload": {"prompt": "The quick", "output_tokens": 6, "stop_at_eos": False}})
        assert result["tokens"] == expected, machine


def test_codes_scales_and_zero_points_are_the_files(case):
    model, packed, path, type_id = case
    kind, (k, n), begin = types_of(path)["blk.1.attn_q.weight"]
    assert kind == type_id
    codes, scales, zeros = packed["model.layers.1.self_attn.q_proj"]
    block, bits, zero = type_id & 0x3ff & ~0x400, type_id >> 12 & 15, bool(type_id & 0x800)
    head = 3 if zero else 2
    raw = np.frombuffer(path.read_bytes(), np.uint8, n * k // block * (head + block * bits // 8), begin).reshape(n, k // block, -1)
    if not model.shape.half_split:  # rows of the file alternate between the halves of a head
        order = np.arange(n).reshape(model.shape.heads, 2, -1).swapaxes(1, 2).reshape(-1)
        codes, scales, zeros = codes[order], scales[order], zeros[order]
    per_group = k // block // scales.shape[1]
    assert (np.ascontiguousarray(raw[..., :2]).view("<f2")[..., 0] == np.repeat(scales, per_group, 1)).all()
    if zero:
        assert (raw[..., 2] == np.repeat(zeros, per_group, 1)).all()
    for element in range(block):
        found = raw[..., head + element] ^ 0x80 if bits == 8 else sum(
            (raw[..., head + plane * block // 8 + element // 8] >> element % 8 & 1) << plane for plane in range(bits))
        assert (found == codes.reshape(n, -1, block)[..., element]).all()


@pytest.fixture
def folder(tmp_path):
    """A folder to damage: its tensors, and a function that converts and expects a message."""
    _, _, tensors = export(tmp_path, group=64)

    def refused(*words):
        write_safetensors(tmp_path / "model.safetensors", tensors)
        with pytest.raises(ConfigError) as error:
            convert(tmp_path, tmp_path / "out.gguf")
        assert all(word in str(error.value) for word in words), error.value
        assert not list(tmp_path.glob("out.gguf*"))

    return tmp_path, tensors, refused


GATE = "model.layers.1.mlp.gate_proj"


def set_config(folder, name, **values):
    path = folder / name
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.mark.parametrize("part, change, words", [
    ("g_idx", lambda x: np.where(np.arange(len(x)) == 3, 1, x).astype(np.int32),
     ("group 0 has 63 inputs", "64 in each", "--act-order f32")),
    ("g_idx", lambda x: x + np.int32(1), ("input 64 is of group 2", "0 to 1")),
    ("qweight", lambda x: x[:-1], ("I32 [15, 192]", "I32 [16, 192]")),
    ("qzeros", lambda x: x.astype(np.float32), ("is F32",)),
    ("qzeros", lambda x: x | np.int32(15), ("group 0, output 0 stores the zero point 15", "gptq_v2")),
    ("scales", lambda x: np.where(x == x[0, 0], np.inf, x).astype(np.float16), ("group 0, output 0 has the scale inf",)),
    ("scales", lambda x: x.astype(np.float32) * np.float32(1.0001), ("float16 can not hold",)),
    ("bias", lambda _: np.ones(192, np.float32), ("a bias that is not zero",)),
    ("extra", lambda _: np.ones(3, np.float32), ("has no such tensor",)),
])
def test_a_damaged_tensor_is_named(folder, part, change, words):
    path, tensors, refused = folder
    name = f"{GATE}.{part}"
    tensors[name] = change(tensors.get(name))
    refused(str(path / "model.safetensors"), name, *words)


@pytest.mark.parametrize("part", ["qzeros", "scales"])
def test_a_missing_tensor_is_named(folder, part):
    _, tensors, refused = folder
    del tensors[f"{GATE}.{part}"]
    refused(f"{GATE}.{part}: the tensor is missing")


def test_act_order_without_its_groups_is_refused(folder):
    path, tensors, refused = folder
    set_config(path, "quantize_config.json", desc_act=True)
    del tensors[f"{GATE}.g_idx"]
    refused(f"{GATE}.g_idx: the tensor is missing", "desc_act: true")


@pytest.mark.parametrize("file, key, value", [
    ("quantize_config.json", "bits", 3), ("quantize_config.json", "bits", True), ("quantize_config.json", "group_size", 48),
    ("quantize_config.json", "checkpoint_format", "marlin"), ("quantize_config.json", "is_marlin_format", True),
    ("quantize_config.json", "pack_dtype", "int64"), ("quantize_config.json", "dynamic", []),
    ("quantize_config.json", "dynamic", {"(": {}}), ("quantize_config.json", "dynamic", {".*": {"bits": 5}}),
    ("quantize_config.json", "dynamic", {"a" * 300: {}}),
    ("quantize_config.json", "quant_method", "awq"), ("quantize_config.json", "sym", True), ("config.json", "model_type", "gpt2"),
    ("config.json", "hidden_size", -1), ("config.json", "num_hidden_layers", 3), ("config.json", "rope_scaling", {"type": "yarn"}),
    ("config.json", "vocab_size", 200),
])
def test_a_wrong_setting_is_named(folder, file, key, value):
    path, _, refused = folder
    set_config(path, file, **{key: value})
    refused({"sym": "sym: true", "num_hidden_layers": "model.layers.2."}.get(key, f"{path / file}: {key}"))


def test_settings_in_the_configuration_are_those_of_a_file_of_their_own(tmp_path):
    """As newer exporters write them: quantization_config in config.json alone."""
    export(tmp_path, form="gptq_v2")
    convert(tmp_path, tmp_path / "own.gguf")
    settings = tmp_path / "quantize_config.json"
    set_config(tmp_path, "config.json", quantization_config=json.loads(settings.read_text()))
    settings.unlink()
    convert(tmp_path, tmp_path / "within.gguf")
    assert (tmp_path / "own.gguf").read_bytes() == (tmp_path / "within.gguf").read_bytes()
    set_config(tmp_path, "config.json", quantization_config={"bits": 4})
    with pytest.raises(ConfigError, match=r"config\.json: group_size: None"):
        convert(tmp_path, tmp_path / "none.gguf")


def test_act_order_whose_groups_lie_side_by_side_keeps_its_codes(tmp_path):
    """static_groups: true, or one group for all inputs."""
    export(tmp_path, form="gptq_v2")
    convert(tmp_path, tmp_path / "plain.gguf")
    set_config(tmp_path, "quantize_config.json", desc_act=True)
    convert(tmp_path, tmp_path / "static.gguf")
    assert (tmp_path / "plain.gguf").read_bytes() == (tmp_path / "static.gguf").read_bytes()
    export(tmp_path, group=-1, act_order=True)
    assert convert(tmp_path, tmp_path / "row.gguf")["as_values"] == 0


def test_modules_have_settings_of_their_own(tmp_path):
    """GPTQModel's "dynamic": the first pattern that matches, and "-:" for modules without codes."""
    (tmp_path / "eight").mkdir()
    model, _, tensors = export(tmp_path, form="gptq_v2", only=("ffn_gate", "ffn_up"),
                               dynamic={r"-:.*self_attn": {}, r"+:.*\.mlp\.down_proj": {"bits": 8, "group_size": 64}, ".*": {}})
    wide, _, others = export(tmp_path / "eight", bits=8, group=64, form="gptq_v2")
    for layer in range(LLAMA.layers):
        name = f"model.layers.{layer}.mlp.down_proj"
        del tensors[f"{name}.weight"]
        tensors |= {key: value for key, value in others.items() if key.startswith(f"{name}.")}
        model.weights[f"blk.{layer}.ffn_down.weight"] = wide.weights[f"blk.{layer}.ffn_down.weight"]
    write_safetensors(tmp_path / "model.safetensors", tensors)
    assert convert(tmp_path, tmp_path / "model.gguf")["matrices"] == 3 * LLAMA.layers
    types = types_of(tmp_path / "model.gguf")
    assert [types[f"blk.1.{part}.weight"][0] for part in ("attn_q", "ffn_up", "ffn_down")] == [1, 0x56544820, 0x56548840]
    text = tmp_path / "text.txt"
    text.write_text(TEXT)
    assert vitro.perplexity(tmp_path / "model.gguf", text)["nll"] == pytest.approx(oracle.nll(model, TEXT), abs=1e-3)


@pytest.mark.parametrize("scaling", [{}, {"rope_type": "linear", "factor": 2.0},
                                     {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                      "original_max_position_embeddings": 64}], ids=lambda s: s.get("rope_type", "none"))
def test_the_rotation_is_read_as_transformers_4_and_5_write_it(tmp_path, scaling):
    export(tmp_path)
    set_config(tmp_path, "config.json", rope_theta=5e5, rope_scaling=scaling or None)
    convert(tmp_path, tmp_path / "apart.gguf")
    config = json.loads((tmp_path / "config.json").read_text())
    for key in ("rope_theta", "rope_scaling"):
        del config[key]
    together = {"rope_theta": 5e5, "rope_type": "default"} | scaling
    (tmp_path / "config.json").write_text(json.dumps(config | {"rope_parameters": together}))
    convert(tmp_path, tmp_path / "together.gguf")
    assert (tmp_path / "together.gguf").read_bytes() == (tmp_path / "apart.gguf").read_bytes()
    set_config(tmp_path, "config.json", rope_parameters={"full_attention": together, "sliding_attention": together})
    with pytest.raises(ConfigError, match="rope_parameters.*for all layers"):
        convert(tmp_path, tmp_path / "none.gguf")


def test_scales_in_float32_are_rounded_where_that_is_asked_for(folder):
    """As AutoGPTQ writes them for a model that was loaded in float32."""
    path, tensors, refused = folder
    exact = {name: value.astype(np.float32) * np.float32(1.0003) for name, value in tensors.items() if name.endswith(".scales")}
    write_safetensors(path / "model.safetensors", tensors | {name: value.astype(np.float16) for name, value in exact.items()})
    convert(path, path / "halves.gguf")
    tensors |= exact
    refused("float16 can not hold", "--round-scales")
    convert(path, path / "rounded.gguf", round_scales=True)
    assert (path / "rounded.gguf").read_bytes() == (path / "halves.gguf").read_bytes()


def test_biases_of_zeros_are_none(folder):
    path, tensors, _ = folder
    for part, size in (("q_proj", 128), ("k_proj", 64), ("v_proj", 64), ("o_proj", 128)):
        tensors[f"model.layers.0.self_attn.{part}.bias"] = np.zeros(size, np.float16)
    write_safetensors(path / "model.safetensors", tensors)
    convert(path, path / "out.gguf")
    assert "blk.0.attn_q.bias" not in types_of(path / "out.gguf")


def test_zero_points_that_are_whole_under_the_old_name_are_known_by_their_value(tmp_path):
    """As some exporters write symmetric files: checkpoint_format says gptq, and 8 is stored."""
    export(tmp_path, symmetric=True, form="gptq_v2")
    convert(tmp_path, tmp_path / "whole.gguf")
    set_config(tmp_path, "quantize_config.json", checkpoint_format="gptq")
    convert(tmp_path, tmp_path / "named.gguf")
    assert (tmp_path / "whole.gguf").read_bytes() == (tmp_path / "named.gguf").read_bytes()


def test_the_command_names_what_is_wrong_and_exits_with_two(native, tmp_path):
    export(tmp_path)
    answer = native("convert", tmp_path, "out.gguf", "--json")
    assert answer.code == 0 and answer.json["bits"] == 4, answer.err
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-10])
    answer = native("convert", tmp_path, "out2.gguf")
    assert answer.code == 2 and str(path) in answer.err and "truncated" in answer.err
    assert not list(tmp_path.glob("out2*"))
    assert native("convert", tmp_path / "none", "out.gguf").code == 2
