"""Keys and values that an accelerator does not read: left to the cores, or staged for it in fp16 at a price."""
import json

import pytest
import vitro
from conftest import ROOT

pytestmark = pytest.mark.usefixtures("has_native")

CONFIGS = ROOT / "configs"
LAYERS, KV_HEADS, HEAD_DIM = 3, 2, 128  # of Qwen2.5-1.5B, cut short
PROMPT, OUTPUTS, BLOCK = 100, 4, 256  # a block of these layers fills whole pages with so many positions in int8_fp8


def run(out=None, **overrides):
    tree = {"experiment": "staging", "machine": "sim", "device": str(CONFIGS / "devices" / "oneplus12.yaml"),
            "model": str(CONFIGS / "models" / "qwen2.5-1.5b.yaml"), "engine": str(CONFIGS / "engines" / "tts.yaml"),
            "workload": {"prompt_tokens": PROMPT, "output_tokens": OUTPUTS, "stop_at_eos": False}}
    return vitro.run(tree, out=out, overrides={"engine.numerics": False, "model.shape.layers": LAYERS} | overrides)


def calls(folder, operator):
    """-> names of the units that ran calls of an operator, a name for each call."""
    events = json.loads((folder / "trace.json").read_text())["traceEvents"]
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e.get("ph") == "M" and e["name"] == "thread_name"}
    return [names[e["pid"], e["tid"]] for e in events if e.get("ph") == "X" and e["name"] == operator]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("staging")
    kinds = {"f16": {}, "cores": {"engine.kv_format": "int8_fp8"},
             "staged": {"engine.kv_format": "int8_fp8", "engine.placement.kv": "staged"}}
    return {name: (run(folder / name, **changes), folder / name) for name, changes in kinds.items()}


def test_heads_are_where_the_placement_says_and_cores_convert(runs):
    steps = OUTPUTS  # a prompt of one chunk, and a step for each token after the first
    assert set(calls(runs["f16"][1], "attention")) == {"npu"} and not calls(runs["f16"][1], "kv_stage")
    assert "npu" not in calls(runs["cores"][1], "attention") and not calls(runs["cores"][1], "kv_stage")
    assert calls(runs["staged"][1], "attention") == ["npu"] * steps * LAYERS
    assert "npu" not in calls(runs["staged"][1], "kv_append")
    converting = calls(runs["staged"][1], "kv_stage")
    assert "npu" not in converting and len(converting) == steps * LAYERS * KV_HEADS  # four cores share two heads


def test_the_staged_pool_is_charged_as_one_layer_of_halves(runs):
    blocks = -(-(PROMPT + OUTPUTS - 1) // BLOCK)
    more = runs["staged"][0]["peak_memory"]["kv"] - runs["cores"][0]["peak_memory"]["kv"]
    assert more == blocks * BLOCK * KV_HEADS * 2 * HEAD_DIM * 2


def test_conversion_takes_time_and_its_rate_is_said_to_be_general(runs):
    def latency(name):
        return runs[name][0].metrics["token_latency_ms"]["mean"]
    assert latency("staged") > latency("f16")
    assert any("kv_stage" in entry for entry in runs["staged"][0]["unpriced_calls"])
    assert not any("kv_stage" in entry for name in ("f16", "cores") for entry in runs[name][0]["unpriced_calls"])


def test_a_longer_context_costs_as_much_more_as_it_has_positions(tmp_path):
    def spent(prompt):
        folder = tmp_path / str(prompt)
        changes = {"engine.kv_format": "int8_fp8", "engine.placement.kv": "staged", "workload.prompt_tokens": prompt,
                   "workload.output_tokens": 2, "model.shape.layers": 1, "engine.prefill_chunk": 4096}
        run(folder, **changes)
        events = json.loads((folder / "trace.json").read_text())["traceEvents"]
        last = [e["dur"] for e in events if e.get("ph") == "X" and e["name"] == "kv_stage"][-KV_HEADS:]
        return sum(last)
    assert spent(4000) / spent(1000) == pytest.approx(4, rel=0.1)


def test_what_lands_from_flash_is_staged_as_what_never_left():
    # On host, where a core stands for the accelerator.
    staged = {"engine.policy": "npu_dense", "engine.units": ["cpu0"], "engine.placement.unit": "cpu1", "engine.placement.kv": "staged",
              "engine.kv_format": "int8_fp8", "engine.kv_per": "query_head", "workload.batch": 2, "workload.output_tokens": 180}
    kept, left = (vitro.run(ROOT / "experiments" / "quickstart.yaml", machine="host", overrides=staged | more)
                  for more in ({}, {"engine.kv_dram_tokens": 0}))
    assert left.metrics["kv_flash"]["bytes_read"] > 0
    assert left.tokens == kept.tokens and left["sequences"] == kept["sequences"]
