"""Engines on the NPU: look-up decoding with shared tables, layers on the NPU with the head on cores, two copies of the weights."""
import json
import re

import pytest
import vitro
from conftest import ROOT
from vitro.errors import ConfigError, RunError

CONFIGS = ROOT / "configs"
MODELS = CONFIGS / "models" / "embedded"
REFERENCE = json.loads((MODELS / "reference.json").read_text())


def experiment(engine, model="bitnet-2b", device="oneplus12", **overrides):
    tree = {"experiment": "npu", "machine": "sim", "device": str(CONFIGS / "devices" / f"{device}.yaml"),
            "model": str(CONFIGS / "models" / f"{model}.yaml"), "engine": str(CONFIGS / "engines" / f"{engine}.yaml"),
            "workload": {"prompt_tokens": 32, "output_tokens": 4, "stop_at_eos": False}}
    return tree, {"engine.numerics": False} | overrides


def run(*args, out=None, **more):
    tree, overrides = experiment(*args, **more)
    return vitro.run(tree, overrides=overrides, out=out)


def calls(folder, op):
    trace = json.loads((folder / "trace.json").read_text())
    return [event for event in trace["traceEvents"] if event.get("ph") == "X" and event["name"] == op]


def test_shared_tables_are_made_once_and_save_time(tmp_path):
    small = {"model.shape.layers": 2, "workload.output_tokens": 2}
    shared = run("tman", out=tmp_path / "shared", **small)
    apart = run("tman", out=tmp_path / "apart", **small, **{"engine.products.share_precompute": False})
    # One decode step: q, k and v share, gate and up share; the prompt's products dequantise and need no tables.
    assert len(calls(tmp_path / "shared", "precompute")) == 2 * 4
    assert len(calls(tmp_path / "apart", "precompute")) == 2 * 7
    assert shared.metrics["token_latency_ms"]["mean"] < apart.metrics["token_latency_ms"]["mean"]


def test_decoding_by_look_up_beats_dequantisation():
    dequantised = run("tman", **{"engine.products.decode": "scaled_tables"})
    assert run("tman").metrics["decode_tokens_per_s"] > dequantised.metrics["decode_tokens_per_s"]


def test_ternary_prompts_are_faster_in_int8():
    """T-MAN 6.2: BitNet's weights have one scale, so int8 tiles serve, at twice the matrix unit's rate; decoding is the same."""
    rates = {"engine.prefill_activations": "int8_rows", "engine.products.prefill": "automatic"}
    halves, integers = run("tman", **{"workload.prompt_tokens": 128}), run("tman", **rates, **{"workload.prompt_tokens": 128})
    assert integers.metrics["prefill_tokens_per_s"] > halves.metrics["prefill_tokens_per_s"]
    assert integers.metrics["decode_tokens_per_s"] == halves.metrics["decode_tokens_per_s"]
    assert "int8_rows.w2g128r on npu" not in integers["unpriced_calls"]


def test_layers_run_on_the_npu_and_the_head_on_cores(tmp_path):
    result = run("tts", "qwen2.5-1.5b", out=tmp_path / "run", **{"model.shape.layers": 2, "workload.output_tokens": 2})
    trace = json.loads((tmp_path / "run" / "trace.json").read_text())
    names = {(event["pid"], event["tid"]): event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "thread_name"}
    where = {}
    for event in calls(tmp_path / "run", "matmul"):
        where.setdefault("layer" in json.dumps(event.get("args", {})), set()).add(names[event["pid"], event["tid"]])
    assert where[True] == {"npu"}
    assert where[False] == {"cpu0", "cpu1", "cpu2", "cpu3"}
    assert result["counts"]["launches"] > 0


def test_a_share_of_the_output_matrix_is_the_npus(tmp_path):
    """TTS-NPU 8: it costs a launch for each step, and address space, and changes no token."""
    small = {"model.shape.layers": 2, "workload.output_tokens": 2}
    without, half, whole = (run("tts", "qwen2.5-1.5b", out=tmp_path / share, **small, **{"engine.placement.head": share})
                            for share in ("0%", "50%", "100%"))
    assert half["counts"]["launches"] == whole["counts"]["launches"] == without["counts"]["launches"] + 2
    trace = json.loads((tmp_path / "50%" / "trace.json").read_text())
    names = {(event["pid"], event["tid"]): event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "thread_name"}
    units = {names[event["pid"], event["tid"]] for event in calls(tmp_path / "50%", "matmul") if "layer" not in json.dumps(event["args"])}
    assert units == {"npu", "cpu0", "cpu1", "cpu2", "cpu3"}
    case = REFERENCE["models"]["stories-reglu-3m.f16.gguf"]["greedy"][0]
    tree, _ = experiment("tts")
    tree |= {"model": {"gguf": str(MODELS / "stories-reglu-3m.f16.gguf")},
             "workload": {"prompt": case["prompt"], "output_tokens": 8, "stop_at_eos": False}}
    for machine in ({}, {"machine": "host", "engine.units": ["cpu0"], "engine.placement.unit": "cpu1"}):
        plain = {"engine.activations": "float", "engine.kv_format": "f32", "engine.placement.head": "60%"}
        assert vitro.run(tree, overrides=plain | machine)["tokens"] == case["ids"][:8]


def test_the_output_matrix_counts_for_sessions_as_far_as_the_npu_has_it():
    def needed(share):
        with pytest.raises(ConfigError, match="engine.sessions: 1 sessions of npu map") as refused:
            run("tts", "qwen2.5-7b", **{"engine.placement.head": share})
        return float(re.search(r"need ([\d.]+) GiB", str(refused.value))[1])
    none, half, all_of_it = (needed(share) for share in ("0%", "50%", "100%"))
    weights = 152064 * 3584 / 2**30
    assert weights < all_of_it - none < 1.1 * weights  # q8_0: a byte each, and scales
    assert half == pytest.approx((none + all_of_it) / 2, abs=0.011)


def test_one_session_does_not_hold_seven_billion_parameters():
    with pytest.raises((ConfigError, RunError), match="engine.sessions: 1 sessions of npu map"):
        run("tts", "qwen2.5-7b")
    run("tts", "qwen2.5-7b", **{"engine.sessions": 2})


def test_two_copies_of_eight_billion_weights_run_out_of_memory():
    assert run("llm_npu", "llama-3.1-8b", **{"model.format": "q4_0"}).metrics["peak_memory_bytes"] > 12e9
    with pytest.raises((ConfigError, RunError), match="memory"):
        run("llm_npu", "llama-3.1-8b", device="oneplus13t", **{"model.format": "q4_0"})
    run("tman", "llama-3.1-8b", device="oneplus13t")


def test_llm_npu_leaves_decoding_to_the_cores():
    at = {tokens: run("llm_npu", **{"model.format": "q4_0", "workload.output_tokens": tokens})["counts"]["launches"] for tokens in (1, 4)}
    assert at[1] == at[4] > 0


def test_a_cache_of_query_heads_takes_four_times_the_room_and_the_bytes_of_reading_it():
    q4 = {"model.format": "q4_0", "model.shape.layers": 2, "workload.output_tokens": 2}
    once, copied = (run("llm_npu", **q4, **{"engine.kv_per": per}) for per in ("kv_head", "query_head"))
    assert copied["peak_memory"]["kv"] == 4 * once["peak_memory"]["kv"]  # BitNet: 20 query heads, 5 KV heads
    assert copied.metrics["token_latency_ms"]["mean"] > once.metrics["token_latency_ms"]["mean"]
    assert run("llm_npu", **q4)["peak_memory"] == copied["peak_memory"]  # as mllm has it


def test_outliers_make_the_prompt_slower():
    few, many = (run("llm_npu", **{"model.format": "q4_0", "engine.outliers": share, "workload.output_tokens": 1})
                 for share in ("0%", "20%"))
    assert few.metrics["ttft_ms"] < many.metrics["ttft_ms"]


@pytest.mark.parametrize("engine", ["tts", "tman"])
def test_tokens_do_not_depend_on_who_computes(engine):
    case = REFERENCE["models"]["stories-reglu-3m.f16.gguf"]["greedy"][0]
    tree, _ = experiment(engine)
    tree |= {"model": {"gguf": str(MODELS / "stories-reglu-3m.f16.gguf")},
             "workload": {"prompt": case["prompt"], "output_tokens": 8, "stop_at_eos": False}}
    assert vitro.run(tree, overrides={"engine.activations": "float", "engine.kv_format": "f32"})["tokens"] == case["ids"][:8]


@pytest.mark.parametrize("changes, part", [
    ({"engine.units": ["cpu0"]}, r"engine.placement.kind: layers needs an accelerator, and engine.placement.units names none"),
    ({"engine.units": ["npu"]}, r"engine.placement.kind: layers needs a core .*, and engine.placement.units names none"),
    ({"engine.placement.head": "120%"}, "engine.placement.head"),
    ({"engine.policy": "dense", "engine.placement.head": "50%"}, "engine.placement.head: is a share of what kind layers leaves to the"),
    ({"engine.products.decode": "magic"}, "engine.products.decode"),
    ({"engine.kv_per": "head"}, r'engine.kv_per: "head" \(expected one of: kv_head, query_head\)'),
    ({"model.format": "w5g32"}, "model.format: \"w5g32\" is not a weight format"),
    ({"model.formats": {"heads": "q8_0"}}, "model.formats.heads"),
    ({"workload": {"products": {"shapes": []}}}, "workload.products.shapes: is empty"),
    ({"workload": {"products": {"shapes": [{"columns": 32, "depth": 33}]}}}, "33 is not a multiple of the block of q4_0"),
    ({"workload": {"softmax": {"columns": 32, "exp": "magic"}}}, "workload.softmax.exp"),
    ({"workload": {"softmax": {"rows": 4}}}, "workload.softmax.columns"),
    ({"workload": {"softmax": {"columns": 32}, "products": {"shapes": []}}},
     "workload.softmax: can not be combined with workload.products"),
])
def test_mistakes_are_named(changes, part):
    with pytest.raises(ConfigError, match=part):
        run("tts", "qwen2.5-1.5b", **changes)


def test_a_vendors_graph_has_no_scales_of_groups():
    def time(engine, form):
        work = {"workload": {"products": {"format": form, "shapes": [{"columns": 4096, "depth": 4096}]}}}
        return run(engine, **work).metrics["product_us"]["mean"]
    assert time("qnn_w4a16", "w4g32") == time("qnn_w4a16", "w4g128") == time("qnn_w4a16", "q4_0")
    assert time("tman", "w4g32") > time("tman", "w4g128")


def test_softmax_alone():
    def time(exp, engine="tts", **changes):
        work = {"workload": {"softmax": {"rows": 16, "columns": 4096, "exp": exp}}, "engine.units": ["npu"]}
        return run(engine, "qwen2.5-1.5b", **work | changes).metrics["product_us"]["mean"]
    table, half, single = (time(exp) for exp in ("table", "f16", "f32"))
    assert table < half < single
    # 43 packets for 64 elements of a polynomial in float32, 5 for maximum and sum; four threads at 1 GHz
    assert single == pytest.approx(16 * 4096 * 48 / 64 / 4 / 1e3, rel=0.02)
    # Conflicts in TCM slow the table down, and nothing else.
    assert time("table", **{"device.npu.gather_packets": 48}) > 1.2 * table
    assert time("f16", **{"device.npu.gather_packets": 48}) == half
    assert time("table", "llamacpp_cpu", **{"engine.units": ["cpu0"]}) > single  # any unit can be asked


def test_sessions_say_what_they_map():
    short, long = (run("tts", "qwen2.5-1.5b", **{"workload.prompt_tokens": tokens}).metrics["accelerator_mapped_bytes"]
                   for tokens in (64, 2048))
    keys = 28 * 2 * 256 * 2  # bytes of a token: layers, keys and values, width, float16
    assert 1984 * keys * 0.8 < long - short < 1984 * keys * 1.5
    assert run("llamacpp_cpu").metrics["accelerator_mapped_bytes"] is None


def test_products_alone():
    work = {"workload": {"products": {"rows": 1, "repeat": 2, "format": "w4g64z", "shapes": [{"columns": 4096, "depth": 4096}]}}}
    result = run("tman", **work)
    time = result.metrics["product_us"]["mean"]
    assert time > 4096 * 4096 * 4.375 / 8 / 60e3  # no faster than its bytes by DMA
    assert result.metrics["decode_tokens_per_s"] is None
    four = run("llamacpp_cpu", **{"workload": {"products": work["workload"]["products"] | {"format": "q4_0"}}})
    one = run("llamacpp_cpu", **{"workload": {"products": work["workload"]["products"] | {"format": "q4_0"}}, "engine.units": ["cpu0"]})
    assert four.metrics["product_us"]["mean"] < one.metrics["product_us"]["mean"]
    with pytest.raises((ConfigError, RunError), match="computes no values"):
        tree, _ = experiment("tman")
        vitro.run(tree | {"model": {"gguf": str(MODELS / "stories-reglu-3m.f16.gguf")}} | work)
