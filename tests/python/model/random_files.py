"""Files whose blocks are random bytes, and what both machines must make of them: for formats that are read and not written."""
import gguf
import numpy as np
import oracle
import pytest
import vitro
from conftest import ROOT
from oracle import Shape

TEXT = "The quick brown fox jumps over the lazy dog, again and again. 0123456789"


def case(name, folder, random_rows):
    """-> (the oracle's model, its file). random_rows(kind, shape, rng): bytes of a matrix, by row."""
    kind, rng = gguf.GGMLQuantizationType[name], np.random.default_rng(5)
    model = oracle.random_model(Shape(width=256, ffn=512), seed=3)
    packed = {}
    for tensor, value in model.weights.items():
        if value.ndim != 2 or "token_embd" in tensor:
            continue
        rows = random_rows(kind, value.shape, rng)
        packed[tensor] = (rows, kind)
        model.weights[tensor] = gguf.quants.dequantize(rows, kind)
    path = folder / "model.gguf"
    oracle.write_gguf(model, path, packed)
    return model, path


def expect_likelihood(model, path, folder):
    """That of the values in float, and near it in int8."""
    text = folder / "text.txt"
    text.write_text(TEXT)
    expected = oracle.nll(model, TEXT)
    assert vitro.perplexity(path, text, overrides={"engine.products.numerics": "float"})["nll"] == pytest.approx(expected, abs=2e-4)
    rounded = vitro.perplexity(path, text)["nll"]
    assert rounded == pytest.approx(expected, abs=0.05) and rounded != pytest.approx(expected, abs=1e-7)


def expect_same_tokens(path):
    """On both machines, from both layouts, and every call has a price."""
    runs = []
    for machine, engine in (("host", {"threads": 2}), ("host", {"policy": "mmap"}), ("host", {"weights": {"repack": False}}),
                            ("sim", {"threads": 2})):
        runs.append(vitro.run({"experiment": "random_file", "machine": machine, "model": {"gguf": str(path)}, "engine": engine,
                               "device": str(ROOT / "configs/devices/oneplus12.yaml"),
                               "workload": {"prompt": "The quick", "output_tokens": 6, "stop_at_eos": False}}))
    assert [run["tokens"] for run in runs] == [runs[0]["tokens"]] * len(runs)
    assert runs[-1]["unpriced_calls"] == []
