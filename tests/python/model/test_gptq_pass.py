"""GPTQ over a calibration text: what it costs the embedded models on other text, beside rounding each weight by itself."""
import hashlib

import gguf
import numpy as np
import pytest
import vitro
from conftest import ROOT
from oracle import Shape, random_model, write_gguf
from vitro.base import native as native_module
from vitro.errors import ConfigError
from vitro.model.make import make_model, spec_with
from vitro.model.quality import paired

MODELS = ROOT / "configs" / "models" / "embedded"
RELU, MIXTURE = MODELS / "stories-reglu-3m.f16.gguf", MODELS / "stories-moe-6m.f16.gguf"


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """The first half of the text to calibrate with, the second one to score."""
    words = (MODELS / "eval.txt").read_text()
    half = words.index("\n", len(words) // 2)
    folder = tmp_path_factory.mktemp("texts")
    (folder / "first.txt").write_text(words[:half])
    (folder / "second.txt").write_text(words[half:])
    return folder / "first.txt", folder / "second.txt"


def scored(model, folder, texts, scheme, **gptq):
    """-> vitro.perplexity() of the second text, once the model has the scheme."""
    path = folder / "quantised.gguf"
    found = vitro.quantize(model, path, scheme, gptq=vitro.Gptq(texts[0], **gptq) if gptq else None)
    assert bool(found) == bool(gptq)
    return vitro.perplexity(path, texts[1])


@pytest.mark.all
@pytest.mark.parametrize("model, scheme", [(MIXTURE, "w2g32"), pytest.param(RELU, "w2g64z", marks=pytest.mark.all),
                                           pytest.param(MIXTURE, "w3_channel", marks=pytest.mark.all),
                                           pytest.param(RELU, "w1g64", marks=pytest.mark.all),
                                           pytest.param(MIXTURE, "w4_channel", marks=pytest.mark.all)])
def test_few_bits_cost_less_by_more_than_chance(tmp_path, texts, model, scheme):
    alone, by_gptq = scored(model, tmp_path, texts, scheme), scored(model, tmp_path, texts, scheme, damp=0.01)
    found = paired(by_gptq, alone)
    assert found["difference"] < -2 * found["standard_error"]


@pytest.mark.all
@pytest.mark.parametrize("scheme", ["w4g32z", "q4_0"])
def test_four_bits_do_not_cost_more_by_more_than_chance(tmp_path, texts, scheme):
    found = paired(scored(RELU, tmp_path, texts, scheme, damp=0.01), scored(RELU, tmp_path, texts, scheme))
    assert found["difference"] < 2 * found["standard_error"]


@pytest.mark.all
def test_act_order_and_damping_change_codes_and_cost_less_too(tmp_path, texts):
    alone, seen = scored(MIXTURE, tmp_path, texts, "w2g64"), set()
    for options in ({"damp": 0.01}, {"damp": 0.01, "act_order": True}, {"damp": 0.5}):
        found = paired(scored(MIXTURE, tmp_path, texts, "w2g64", **options), alone)
        assert found["difference"] < -2 * found["standard_error"], options
        seen.add(hashlib.sha256((tmp_path / "quantised.gguf").read_bytes()).digest())
    assert len(seen) == 3


def test_a_file_is_that_of_plain_rounding_but_for_the_codes_of_layers(tmp_path, texts):
    vitro.quantize(RELU, tmp_path / "alone.gguf", "q4_0", embedding="bf16", output="q8_0")
    counted = vitro.quantize(RELU, tmp_path / "gptq.gguf", "q4_0", embedding="bf16", output="q8_0", gptq=vitro.Gptq(texts[0]))
    alone, ours = (gguf.GGUFReader(tmp_path / name) for name in ("alone.gguf", "gptq.gguf"))
    assert list(alone.fields) == list(ours.fields)
    assert [(t.name, t.tensor_type, list(t.shape)) for t in alone.tensors] == [(t.name, t.tensor_type, list(t.shape)) for t in ours.tensors]
    differ = [a.name for a, b in zip(alone.tensors, ours.tensors) if not np.array_equal(a.data, b.data)]
    matrices = [t.name for t in alone.tensors if t.name.startswith("blk.") and len(t.shape) == 2]
    assert differ == matrices and counted["matrices"] == len(matrices)


@pytest.mark.all
def test_the_same_text_gives_the_same_file(tmp_path, texts):
    for name in ("one.gguf", "two.gguf"):
        vitro.quantize(RELU, tmp_path / name, "w3g64z", gptq=vitro.Gptq(texts[0]))
    assert (tmp_path / "one.gguf").read_bytes() == (tmp_path / "two.gguf").read_bytes()
    vitro.quantize(RELU, tmp_path / "other.gguf", "w3g64z", gptq=vitro.Gptq(texts[1]))
    assert (tmp_path / "one.gguf").read_bytes() != (tmp_path / "other.gguf").read_bytes()


def dequantised(path):
    """{name: float values} of the matrices of a file in q4_0."""
    return {t.name: gguf.quants.dequantize(t.data, t.tensor_type) for t in gguf.GGUFReader(path).tensors if len(t.shape) == 2}


@pytest.mark.parametrize("shape", [Shape(width=64, ffn=96), Shape(arch="qwen3", half_split=True, qk_norm=True, tied=True, width=64, ffn=96),
                                   Shape(arch="bitnet", half_split=True, sub_norms=True, width=64, ffn=96)], ids=lambda s: s.arch)
def test_every_family_s_matrices_are_rounded_by_what_they_read(tmp_path, shape):
    """The first layer of a random model: outputs of its matrices for the text err less than with each weight rounded by itself."""
    model = random_model(shape, 5)
    write_gguf(model, tmp_path / "m.gguf")
    rng = np.random.default_rng(2)
    text = tmp_path / "text.txt"
    text.write_bytes(bytes(rng.integers(33, 127, 400, np.uint8)))
    vitro.quantize(tmp_path / "m.gguf", tmp_path / "alone.gguf", "q4_0")
    vitro.quantize(tmp_path / "m.gguf", tmp_path / "gptq.gguf", "q4_0", gptq=vitro.Gptq(text))
    alone, ours = dequantised(tmp_path / "alone.gguf"), dequantised(tmp_path / "gptq.gguf")
    rows = gguf.quants.dequantize(*next((t.data, t.tensor_type) for t in gguf.GGUFReader(tmp_path / "gptq.gguf").tensors
                                        if t.name == "token_embd.weight"))[np.frombuffer(text.read_bytes(), np.uint8) + 3]
    normed = rows / np.sqrt((rows ** 2).mean(-1, keepdims=True) + shape.eps) * model.weights["blk.0.attn_norm.weight"]
    for part in "qkv":
        name = f"blk.0.attn_{part}.weight"
        exact = model.weights[name].astype(np.float64)
        off = [np.square(normed @ (found[name] - exact).T).sum() for found in (ours, alone)]
        assert off[0] < 0.9 * off[1], name


def test_what_is_wrong_is_named_and_nothing_is_written(native, tmp_path, texts):
    native.write("Once upon a time.", "short.txt")
    native.write("", "empty.txt")
    gptq = ("--method", "gptq", "--calibration")
    for words, said in [
        (("w4g32", *gptq, "short.txt"), "--calibration: short.txt has 5 tokens (expected 768 or more"),
        (("w4g32", *gptq, "empty.txt"), "empty.txt has 0 tokens"),
        (("w4g32", *gptq, "none.txt"), "none.txt"),
        (("w4g32", "--method", "gptq"), "--method: gptq needs --calibration TEXT"),
        (("w4g32", "--method", "awq", "--calibration", texts[0]), '--method: "awq" is unknown (expected round or gptq)'),
        (("w4g32", "--calibration", texts[0]), "--calibration: is an option of --method gptq"),
        (("w4g32", "--damp", "0.1"), "--damp: is an option of --method gptq"),
        (("w4g32", *gptq, texts[0], "--damp", "2"), "--damp"),
        (("q8_0", *gptq, texts[0]), 'scheme "q8_0" does not have (expected one of: q4_0'),
        (("ternary", *gptq, texts[0]), 'scheme "ternary" does not have'),
    ]:
        answer = native("quantize", RELU, "out.gguf", "--scheme", *words)
        assert answer.code == 2 and said in answer.err.replace("\n", " "), (words, answer.err)
        assert not list(tmp_path.glob("out.gguf*"))
    same = native.folder / "same.gguf"
    same.write_bytes(RELU.read_bytes())
    assert native("quantize", same, same, "--scheme", "w4g32", *gptq, texts[0]).code == 2
    assert same.read_bytes() == RELU.read_bytes()


def test_moments_that_no_damping_completes_are_named(tmp_path):
    """Every token is the same, so the inputs of a layer have one direction."""
    write_gguf(random_model(Shape(width=64, ffn=96), 5), tmp_path / "m.gguf")
    (tmp_path / "text.txt").write_text("a" * 200)
    with pytest.raises(ConfigError, match="--damp: 0 leaves the moments of what blk.0.attn_q.weight reads singular"):
        vitro.quantize(tmp_path / "m.gguf", tmp_path / "out.gguf", "q4_0", gptq=vitro.Gptq(tmp_path / "text.txt", damp=0))
    assert not list(tmp_path.glob("out*"))
    for damp in (-0.1, float("nan"), "much"):
        with pytest.raises(ConfigError, match="--damp"):
            vitro.Gptq(tmp_path / "text.txt", damp=damp)


def test_predictors_belong_to_weights_that_are_not_rounded(tmp_path, texts):
    make_model(spec_with("tiny"), tmp_path / "sparse.gguf")
    with pytest.raises(ConfigError, match="sparse.gguf: has predictors of its layers"):
        vitro.quantize(tmp_path / "sparse.gguf", tmp_path / "out.gguf", "q4_0", gptq=vitro.Gptq(texts[0]))
    assert not list(tmp_path.glob("out*"))


def test_schemes_without_codes_of_blocks_or_rows_are_not_among_those_of_gptq():
    schemes = native_module.call("gptq_schemes")
    assert {"q4_0", "iq4_nl", "w2g64z", "w4z_channel", "w8g32z", "q4_0_down_q8", "w4_outliers"} <= set(schemes)
    assert not {"q8_0", "q4_k", "ternary", "q4_0_tile", "npu_int4_channel"} & set(schemes)


@pytest.mark.all
def test_the_command_says_what_it_did(native, texts):
    answer = native("quantize", RELU, "out.gguf", "--scheme", "w2g64", "--method", "gptq", "--calibration", texts[0], "--json")
    assert answer.code == 0 and answer.json["gptq"]["window"] == 256 and answer.json["gptq"]["tokens"] > 768, answer.err
    rows = native("quality", RELU, texts[1], "--scheme", "w2g64", "--method", "gptq", "--calibration", texts[0], "--json").json["rows"]
    ours = vitro.perplexity(native.folder / "out.gguf", texts[1])
    assert rows[1]["nll"] == ours["nll"] and rows[1]["scheme"] == "w2g64"
