"""`vitro perplexity`: windows of the model's context or of `--context`, against the NumPy oracle."""
import json
from dataclasses import replace

import numpy as np
import oracle
import pytest
import vitro
from oracle import Model, Shape, random_model, write_gguf

SHAPE = Shape(layers=1, width=32, heads=2, kv_heads=1, ffn=32, context=1100)  # more than 1,024 and than 512, which was the most
TEXT = "".join(map(chr, np.random.default_rng(3).integers(97, 123, 1300)))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("long")
    model = random_model(SHAPE, 11)
    write_gguf(model, folder / "model.gguf")
    (folder / "text.txt").write_text(TEXT)
    return model, folder / "model.gguf", folder / "text.txt"


def expected(model, context):
    return oracle.nll(Model(replace(model.shape, context=context), model.weights), TEXT)


def test_a_window_is_the_context_of_the_model(made):
    model, path, text = made
    found = vitro.perplexity(path, text)
    assert [chunk["tokens"] for chunk in found["chunks"]] == [1099, 201]
    assert found["nll"] == pytest.approx(expected(model, 1100), abs=1e-4)


@pytest.mark.parametrize("context", [2, 64, 513, 1100])
def test_a_window_is_what_is_asked_for(made, context):
    model, path, text = made
    found = vitro.perplexity(path, text, context=context)
    assert found["tokens"] == 1300 and {chunk["tokens"] for chunk in found["chunks"][:-1]} == {context - 1}
    assert found["nll"] == pytest.approx(expected(model, context), abs=1e-4)


def test_long_windows_see_more_than_short_ones(made):
    """Not what the window is called, but what is attended to: likelihoods differ from the 512th position on."""
    _, path, text = made
    short, long = (vitro.perplexity(path, text, context=context)["chunks"][0] for context in (513, 1100))
    assert long["tokens"] > short["tokens"] and long["nll"] > short["nll"]


def test_memory_is_that_of_one_window(made):
    """Under a budget that has room for the keys and values of a short window, and none for those of a long one."""
    _, path, text = made
    budget = {"memory.budget": "256 KiB", "engine.prefill_chunk": 16}
    assert vitro.perplexity(path, text, context=64, overrides=budget)["tokens"] == 1300
    with pytest.raises(vitro.RunError, match="KV cache of sequence 0 .* do not fit"):
        vitro.perplexity(path, text, overrides=budget)


def test_a_window_that_the_model_does_not_have_is_refused(made, native):
    _, path, text = made
    for context, said in (("1101", "--context: 1101 (expected from 2 to 1100, the context of the model)"), ("1", "--context"),
                          ("-5", "--context"), ("many", "--context")):
        answer = native("perplexity", path, text, "--context", context)
        assert answer.code == 2 and said in " ".join(answer.err.split()), answer.err
    answer = native("perplexity", path, text, "--context", "64", "--json")
    assert json.loads(answer.out)["nll"] == vitro.perplexity(path, text, context=64)["nll"]
    for context in (1, -1, 2.5, True):
        with pytest.raises(vitro.ConfigError, match="--context"):
            vitro.perplexity(path, text, context=context)
