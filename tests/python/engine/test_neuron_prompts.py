"""engine.products.prefill_numerics with neuron clusters: Gate and Up of a prompt have its contract, those of other steps their own."""
import pytest
import vitro
from conftest import ROOT

EMBEDDED = ROOT / "configs" / "models" / "embedded"
DEVICE = ROOT / "configs" / "devices" / "oneplus12.yaml"
TEXT = (EMBEDDED / "eval.txt").read_text()


def layout(model):
    """One whose rows have every contract: of q4_0, scales lie in the row."""
    return "scales_inline" if "q4_0" in model else "bundles"


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text(TEXT[:1500])
    return path


def nll(model, text, **products):
    keys = {"policy": "neuron_cluster", "weights.layout": layout(model), "prefill_chunk": 16}
    keys |= {f"products.{key}": value for key, value in products.items()}
    return vitro.perplexity(EMBEDDED / model, text, overrides={f"engine.{key}": value for key, value in keys.items()})["nll"]


@pytest.mark.parametrize("model, numerics, prompts", [("stories-reglu-3m.q4_0.gguf", "float", "fp16"),
                                                      ("stories-reglu-3m.q8_0.gguf", "int8", "fp16"),
                                                      ("stories-moe-6m.f16.gguf", "float", "fp16")])
def test_a_prompt_is_computed_as_if_its_contract_were_that_of_all_steps(text, model, numerics, prompts):
    """Of a text that is scored, each step has many rows."""
    mixed = nll(model, text, numerics=numerics, prefill_numerics=prompts)
    assert mixed == nll(model, text, numerics=prompts)
    assert mixed != nll(model, text, numerics=numerics)
    assert nll(model, text, numerics=numerics, prefill_numerics=prompts, decode_rows=16) == nll(model, text, numerics=numerics)


def run(machine, model, clusters, numerics, prompts):
    engine = {"policy": "neuron_cluster", "ffn": {"clusters": {"predictors": False}}} if clusters else {"policy": "dense"}
    tree = {"experiment": "prompts", "machine": machine, "model": {"gguf": str(EMBEDDED / model)},
            "engine": engine | {"products": {"numerics": numerics, "prefill_numerics": prompts}, "prefill_chunk": 32,
                                "weights": {"layout": layout(model)} if clusters else {}},
            "workload": {"prompt": TEXT[2000:2240], "output_tokens": 16, "stop_at_eos": False}}
    return vitro.run(tree | ({"device": str(DEVICE)} if machine == "sim" else {}))


# Int8 has a Down of its own in q8_0: neurons add its rows in float32, whole matrices in integers.
@pytest.mark.parametrize("model, numerics, prompts", [("stories-reglu-3m.q4_0.gguf", "int8", "fp16"),
                                                      ("stories-reglu-3m.q4_0.gguf", "int8", "int8_rows"),
                                                      ("stories-reglu-3m.q8_0.gguf", "float", "fp16"),
                                                      ("stories-moe-6m.f16.gguf", "float", "fp16")])
def test_tokens_of_host_and_sim_are_those_of_dense(model, numerics, prompts):
    expected = run("host", model, False, numerics, prompts)["tokens"]
    for machine in ("host", "sim"):
        assert run(machine, model, True, numerics, prompts)["tokens"] == expected, machine
