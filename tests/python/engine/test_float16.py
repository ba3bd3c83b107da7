"""Activations in float16 (docs/design/float16.md): tokens on host and in sim, memory, and likelihood."""
import pytest
import vitro
from conftest import ROOT
from vitro.errors import ConfigError

EMBEDDED = ROOT / "configs" / "models" / "embedded"
DEVICE = ROOT / "configs" / "devices" / "oneplus12.yaml"
MODELS = ("stories-reglu-3m.f16", "stories-reglu-3m.q4_0", "stories-moe-6m.f16")
PROMPT = "Once upon a time there was a little dog who liked to play in the park"

pytestmark = pytest.mark.usefixtures("has_native")


def run(machine, model, prompt=PROMPT, **engine):
    tree = {"experiment": "float16", "machine": machine, "model": {"gguf": str(EMBEDDED / f"{model}.gguf")},
            "engine": {"prefill_chunk": 8} | engine, "workload": {"prompt": prompt, "output_tokens": 24, "stop_at_eos": False}}
    return vitro.run(tree | ({"device": str(DEVICE)} if machine == "sim" else {}))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("kv", ("f16", "int8_fp8"))
def test_host_and_sim_have_the_same_tokens(model, kv):
    engine = {"graph": {"activations": "f16"}, "kv": {"format": kv}, "products": {"numerics": "int8" if "q4_0" in model else "float"}}
    host, sim = run("host", model, threads=2, **engine), run("sim", model, threads=3, **engine)
    assert host["tokens"] == sim["tokens"] and len(host["tokens"]) == 24


def test_the_graph_before_its_passes_has_the_same_tokens():
    fused, unfused = (run("host", MODELS[0], graph={"activations": "f16", "fuse": fuse}) for fuse in ("all", "none"))
    assert fused["tokens"] == unfused["tokens"]


def test_activations_take_half_of_the_memory_but_for_logits_and_indices():
    def memory(activations):
        result = run("sim", MODELS[0], " ".join([PROMPT] * 7), prefill_chunk=128, graph={"activations": activations})
        return result["peak_memory"]["activation"]
    single, half = memory("f32"), memory("f16")
    assert 0.5 * single < half < 0.55 * single


def test_another_format_is_refused_with_the_key_and_those_there_are():
    with pytest.raises(ConfigError, match=r"engine.graph.activations: .*\(expected one of: f32, f16\)"):
        run("sim", MODELS[0], graph={"activations": "f8"})


@pytest.mark.all
def test_likelihood_is_that_of_float32_to_a_thousandth(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text((EMBEDDED / "eval.txt").read_text()[:6000])
    for model in MODELS:
        single, half = (vitro.perplexity(EMBEDDED / f"{model}.gguf", text, overrides={"engine.graph.activations": activations})
                        for activations in ("f32", "f16"))
        assert single["nll"] != half["nll"]  # another contract
        assert abs(single["nll"] - half["nll"]) < 1e-3
