"""Files in K-quants whose blocks are random bytes, against the NumPy oracle with the values that the gguf package reads from them."""
import gguf
import numpy as np
import oracle
import pytest
import vitro
from conftest import ROOT
from oracle import Shape

TEXT = "The quick brown fox jumps over the lazy dog, again and again. 0123456789"
HALVES = {"Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,), "IQ4_XS": (0,)}  # where a block has binary16 values
SCALE = {"Q4_K": 1.2e-4, "Q5_K": 6e-5, "Q6_K": 5e-5, "IQ4_XS": 6e-5}        # of random codes and scales: values as trained ones


@pytest.fixture(scope="module", params=HALVES)
def case(request, tmp_path_factory, has_native):
    """-> (the oracle's model, its file)"""
    kind, rng = gguf.GGMLQuantizationType[request.param], np.random.default_rng(5)
    model = oracle.random_model(Shape(width=256, ffn=512), seed=3)
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    packed = {}
    for name, value in model.weights.items():
        if value.ndim != 2 or "token_embd" in name:
            continue
        blocks = rng.integers(0, 256, (value.shape[0], value.shape[1] // elements, size), dtype=np.uint8)
        for at in HALVES[request.param]:
            blocks[..., at:at + 2] = (SCALE[request.param] * rng.uniform(0.5, 1, blocks.shape[:2])).astype("<f2")[..., None].view(np.uint8)
        rows = blocks.reshape(value.shape[0], -1)
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


def test_both_machines_and_both_layouts_generate_the_same_tokens(case):
    _, path = case
    runs = []
    for machine, engine in (("host", {"threads": 2}), ("host", {"policy": "mmap"}), ("host", {"weights": {"repack": False}}),
                            ("sim", {"threads": 2})):
        runs.append(vitro.run({"experiment": "k_quants", "machine": machine, "model": {"gguf": str(path)}, "engine": engine,
                               "device": str(ROOT / "configs/devices/oneplus12.yaml"),
                               "workload": {"prompt": "The quick", "output_tokens": 6, "stop_at_eos": False}}))
    assert [run["tokens"] for run in runs] == [runs[0]["tokens"]] * len(runs)
    assert runs[-1]["unpriced_calls"] == []
