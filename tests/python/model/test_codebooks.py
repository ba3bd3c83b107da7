"""Files in GGUF's codebook formats whose blocks are random bytes, against the NumPy oracle with the values that the gguf package reads."""
import gguf
import numpy as np
import oracle
import pytest
import vitro
from conftest import ROOT
from oracle import Shape

TEXT = "The quick brown fox jumps over the lazy dog, again and again. 0123456789"
FORMATS = ("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S")


def random_rows(kind, shape, rng):
    """Any bytes are a block; d is set so that values are as large as trained ones."""
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (shape[0] * shape[1] // elements, size), dtype=np.uint8)
    set_d(kind, blocks, np.ones(len(blocks)))
    each = np.std(gguf.quants.dequantize(blocks, kind))
    set_d(kind, blocks, 0.08 / each * rng.uniform(0.5, 1, len(blocks)))
    return blocks.reshape(shape[0], -1)


def set_d(kind, blocks, d):
    halves = d.astype("<f2")
    if kind != gguf.GGMLQuantizationType.IQ1_M:
        blocks[:, :2] = halves[:, None].view(np.uint8)
        return
    for i in range(4):  # four bits in the upper end of each of the last four words
        blocks[:, 49 + 2 * i] = blocks[:, 49 + 2 * i] & 15 | (halves.view(np.uint16) >> 4 * i & 15) << 4


@pytest.fixture(scope="module", params=FORMATS)
def case(request, tmp_path_factory, has_native):
    """-> (the oracle's model, its file)"""
    kind, rng = gguf.GGMLQuantizationType[request.param], np.random.default_rng(5)
    model = oracle.random_model(Shape(width=256, ffn=512), seed=3)
    packed = {}
    for name, value in model.weights.items():
        if value.ndim != 2 or "token_embd" in name:
            continue
        rows = random_rows(kind, value.shape, rng)
        packed[name] = (rows, kind)
        model.weights[name] = gguf.quants.dequantize(rows, kind)
    path = tmp_path_factory.mktemp(request.param) / "model.gguf"
    oracle.write_gguf(model, path, packed)
    return model, path


def test_likelihood_is_that_of_the_values(case, tmp_path):
    model, path = case
    text = tmp_path / "text.txt"
    text.write_text(TEXT)
    expected = oracle.nll(model, TEXT)
    assert vitro.perplexity(path, text, overrides={"engine.products.numerics": "float"})["nll"] == pytest.approx(expected, abs=2e-4)
    rounded = vitro.perplexity(path, text)["nll"]
    assert rounded == pytest.approx(expected, abs=0.05) and rounded != pytest.approx(expected, abs=1e-7)


def test_both_machines_generate_the_same_tokens(case):
    _, path = case
    runs = []
    for machine, engine in (("host", {"threads": 2}), ("host", {"policy": "mmap"}), ("host", {"weights": {"repack": False}}),
                            ("sim", {"threads": 2})):
        runs.append(vitro.run({"experiment": "codebooks", "machine": machine, "model": {"gguf": str(path)}, "engine": engine,
                               "device": str(ROOT / "configs/devices/oneplus12.yaml"),
                               "workload": {"prompt": "The quick", "output_tokens": 6, "stop_at_eos": False}}))
    assert [run["tokens"] for run in runs] == [runs[0]["tokens"]] * len(runs)
    assert runs[-1]["unpriced_calls"] == []
