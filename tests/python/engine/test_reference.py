"""The engine against the training framework's own answers (configs/models/embedded/reference.json)."""
import hashlib
import json

import numpy as np
import pytest
import vitro
from conftest import ROOT

MODELS = ROOT / "configs" / "models" / "embedded"
REFERENCE = json.loads((MODELS / "reference.json").read_text())
EVAL = MODELS / "eval.txt"
F16 = sorted(REFERENCE["models"])
QUANTISED = sorted(name for name in REFERENCE["quantised"] if (MODELS / name).exists())


def run(model, prompt, machine, engine=None):
    return vitro.run({
        "experiment": "reference", "machine": machine, "model": {"gguf": str(MODELS / model)},
        "device": str(MODELS.parents[1] / "devices" / "oneplus12.yaml"),
        "engine": {"policy": "dense", "units": ["cpu0", "cpu1"]} | (engine or {}),
        "workload": {"prompt": prompt, "output_tokens": 48, "stop_at_eos": False},
    })


@pytest.mark.parametrize("sample", REFERENCE["tokenizer"]["samples"], ids=lambda s: s["text"][:20])
def test_tokenisation_of_samples(sample):
    assert vitro.tokenize(MODELS / F16[0], sample["text"]) == sample["ids"]


def test_tokenisation_of_the_whole_text():
    ids = np.array(vitro.tokenize(MODELS / F16[0], EVAL.read_text()), dtype="<i4")
    assert len(ids) == REFERENCE["tokenizer"]["eval_tokens"]
    assert hashlib.sha256(ids.tobytes()).hexdigest() == REFERENCE["tokenizer"]["eval_sha256_of_int32_le"]


@pytest.mark.parametrize("machine", ["host", "sim"])
@pytest.mark.parametrize("model", F16)
def test_greedy_continuations_are_equal(model, machine):
    for case in REFERENCE["models"][model]["greedy"]:
        # The engine's logits differ from the reference's by accumulation order alone, about 1e-5: no gap here is near.
        assert case["smallest_top2_margin"] > 1e-3
        assert run(model, case["prompt"], machine)["tokens"] == case["ids"], case["prompt"]


@pytest.mark.parametrize("model", F16)
def test_likelihood_of_f16_files(model):
    result = vitro.perplexity(MODELS / model, EVAL)
    assert result["tokens"] == REFERENCE["models"][model]["tokens"]
    assert result["nll"] == pytest.approx(REFERENCE["models"][model]["nll"], abs=1e-3)


@pytest.mark.parametrize("model", QUANTISED)
@pytest.mark.parametrize("activations, bound", [("float", 1e-3), ("int8", 1e-2)])
def test_likelihood_of_quantised_files(model, activations, bound):
    result = vitro.perplexity(MODELS / model, EVAL, overrides=[f"engine.activations={activations}"])
    expected = REFERENCE["quantised"][model]["nll"]
    assert abs(result["nll"] - expected) < (bound if activations == "float" else bound * expected)


def test_all_shipped_quantised_files_were_found():
    assert len(QUANTISED) == 4
