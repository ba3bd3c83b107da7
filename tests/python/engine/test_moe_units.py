"""Where a mixture runs: the GPU as a whole or for experts and attention, weights in int8 on the neural engine, static shapes of attention
and what they mask, graphs of just the rows that there are, and energy by cause and by part."""
import subprocess
import sys

import pytest
import vitro
from conftest import ROOT, opencl_platforms
from vitro.errors import ConfigError
from vitro.trace.trace import load_trace

CONFIGS = ROOT / "configs"
MODELS = CONFIGS / "models" / "embedded"
MODEL = MODELS / "stories-moe-6m.f16.gguf"
TEXT = (MODELS / "eval.txt").read_text()
needs_device = pytest.mark.skipif(not opencl_platforms(), reason="needs an OpenCL device, such as Debian's pocl-opencl-icd")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("units")


@pytest.fixture(scope="module")
def calibration(folder):
    text, recording = folder / "text.txt", folder / "experts.vtrc"
    text.write_text(TEXT[:1500])
    vitro.perplexity(MODEL, text, overrides={"engine.record": str(recording)})
    return str(recording)


@pytest.fixture(scope="module")
def int8(folder):
    out = folder / "mixture.q8_0.gguf"
    subprocess.run([sys.executable, "-m", "vitro", "quantize", str(MODEL), str(out), "--scheme", "q8_0"], check=True, capture_output=True)
    return out


def experiment(machine, units, *, model=MODEL, policy="npumoe", **engine):
    given = {"policy": policy, "units": units, "kv_format": "f16", "prefill_chunk": 64, **engine}
    return {"experiment": "units", "machine": machine, "device": str(CONFIGS / "devices" / "m2_ultra.yaml"), "model": {"gguf": str(model)},
            "engine": given, "workload": {"prompt": TEXT[2000:2500], "output_tokens": 6, "stop_at_eos": False}}


def tiers(calibration, units, **moe):
    return {"units": units, "calibration": calibration, "graph_rows": 16, "overflow": "cpu", **moe}


CORES = ["cpu0", "cpu1"]


@pytest.fixture(scope="module")
def dense():
    return vitro.run(experiment("sim", CORES, policy="dense"))["tokens"]


def units_of(folder, operator):
    return {row[1] for row in load_trace(folder).span_rows if row[0] == "units" and row[2] == operator}


def test_the_whole_step_of_a_mixture_runs_on_the_gpu(dense, tmp_path):
    result = vitro.run(experiment("sim", ["gpu"], policy="gpu_dense"), out=tmp_path)
    assert result["tokens"] == vitro.run(experiment("sim", CORES, policy="dense", activations="a16"))["tokens"]
    for operator in ("attention", "matmul", "route", "gather", "expert_sum"):
        assert units_of(tmp_path, operator) == {"gpu"}, operator


def test_experts_and_attention_of_a_chunk_may_be_the_gpus(dense, calibration, tmp_path):
    result = vitro.run(experiment("sim", CORES, moe=tiers(calibration, ["gpu"])), out=tmp_path)
    assert result["tokens"] == dense
    assert result["metrics"]["experts"]["launches_per_layer"] > 0 and "gpu" in units_of(tmp_path, "attention")
    assert result["metrics"]["experts"]["masked_keys_share"] is None  # no static shapes


@needs_device
def test_a_real_device_computes_tiers_of_experts_with_the_tokens_of_a_core(calibration, int8):
    core = vitro.run(experiment("host", CORES, policy="dense", model=int8, activations="a16"))
    gpu = vitro.run(experiment("host", CORES, model=int8, activations="a16", moe=tiers(calibration, ["gpu"])))
    assert gpu["tokens"] == core["tokens"]
    assert gpu["counts"]["gpu_products"] > 0 and gpu["metrics"]["experts"]["launches_per_layer"] > 0


def test_the_neural_engine_computes_with_weights_in_int8(calibration, int8):
    tokens = vitro.run(experiment("sim", CORES, policy="dense", model=int8))["tokens"]
    result = vitro.run(experiment("sim", CORES, model=int8, moe=tiers(calibration, ["ane0", "ane1"])))
    assert result["tokens"] == tokens and result["metrics"]["experts"]["launches_per_layer"] > 0


def shapes(**overrides):
    """Two layers of Phi-3.5-MoE, without numbers."""
    engine = {"policy": "npumoe", "numerics": False, "units": CORES, "kv_format": "f16", "prefill_chunk": 256,
              "moe": {"units": ["ane0", "ane1"], "cold": "0%"}}
    given = {"experiment": "units", "device": str(CONFIGS / "devices" / "m2_ultra.yaml"), "engine": engine,
             "model": str(CONFIGS / "models" / "phi-3.5-moe.yaml"),
             "workload": {"prompt_tokens": 1024, "output_tokens": 1, "stop_at_eos": False}}
    return vitro.run(given, overrides={"model.shape.layers": 2, **overrides})["metrics"]


def test_weights_in_int8_halve_the_stream_and_a_group_has_twice_as_many():
    f16, int8 = shapes(), shapes(**{"model.format": "q8_0"})
    assert 0.5 < int8["prefill_parts_ms"]["experts"] / f16["prefill_parts_ms"]["experts"] < 0.85
    bytes_of = {name: run["communication_parts_j"]["weights"] for name, run in (("f16", f16), ("int8", int8))}
    assert 0.45 < bytes_of["int8"] / bytes_of["f16"] < 0.6  # 34 bytes for 32 weights
    # 1200 MiB hold 8 experts in float16 and 15 in int8: 32 of them are in 4 graphs, or in 3.
    wide = {"engine.moe.group": 32, "engine.moe.tiers": "off", "engine.moe.residency": "off", "model.shape.experts": 32}
    launches = [shapes(**wide, **more)["experts"]["launches_per_layer"] for more in ({}, {"model.format": "q8_0"})]
    assert launches == [4, 3]
    slow = shapes(**{"model.format": "q8_0", "device.ane.dequantise_per_second": 15e9})
    assert slow["prefill_parts_ms"]["experts"] > 1.5 * f16["prefill_parts_ms"]["experts"]


@pytest.mark.parametrize("keys", ["chunks", "powers", "visible", [96, 2048], [100]], ids=str)
def test_static_shapes_of_attention_change_no_token(keys, dense, calibration):
    result = vitro.run(experiment("sim", CORES, moe=tiers(calibration, ["ane0", "ane1"]), placement={"attention_keys": keys}))
    assert result["tokens"] == dense
    share = result["metrics"]["experts"]["masked_keys_share"]
    assert share is None if keys == "visible" else 0.1 < share < 0.99


def test_attention_pays_for_the_keys_that_its_shape_masks():
    runs = {str(keys): shapes(**{"engine.placement.attention_keys": keys}) for keys in ("visible", "chunks", "powers", [4096])}
    times = {name: run["prefill_parts_ms"]["attention"] for name, run in runs.items()}
    assert times["visible"] < times["chunks"] < times["powers"] < times["[4096]"]
    masked = {name: run["experts"]["masked_keys_share"] for name, run in runs.items()}
    # Four chunks of 256: in each a row masks half of the last 256 keys, less itself.
    assert masked["chunks"] == pytest.approx((4 * 256 * 255 / 2) / (256 * 256 * (1 + 2 + 3 + 4)))
    assert masked["powers"] == pytest.approx(1 - 1024 * 1025 / 2 / (256 * 256 * (1 + 2 + 4 + 4)))
    assert masked["[4096]"] == pytest.approx(1 - 1024 * 1025 / 2 / (1024 * 4096))


@pytest.mark.parametrize("keys, message", [([4, 2], "is not ascending"), ("all", "attention_keys"), ([], "attention_keys")])
def test_shapes_that_can_not_be_are_refused(keys, message, calibration):
    with pytest.raises(ConfigError, match=message):
        vitro.run(experiment("sim", CORES, moe=tiers(calibration, ["ane0"]), placement={"attention_keys": keys}))


@pytest.mark.parametrize("machine, units", [("sim", ["ane0", "ane1"]), ("host", ["cpu1"])])
def test_graphs_of_just_the_rows_change_no_token_and_pad_nothing(machine, units, dense, calibration):
    result = vitro.run(experiment(machine, CORES, moe=tiers(calibration, units, shapes="exact")))
    assert result["tokens"] == dense
    assert result["metrics"]["experts"]["padded_share"] == 0 and result["metrics"]["experts"]["launches_per_layer"] > 0


def test_a_graph_for_each_launch_costs_more_than_padding_unless_building_it_is_free():
    fixed, exact = shapes(), shapes(**{"engine.moe.shapes": "exact"})
    free = shapes(**{"engine.moe.shapes": "exact", "device.ane.build": "0 s", "device.ane.load": "0 s"})
    assert exact["ttft_ms"] > 10 * fixed["ttft_ms"]
    assert free["ttft_ms"] < fixed["ttft_ms"]
    assert free["experts"]["token_drop_rate"] == fixed["experts"]["token_drop_rate"]
    assert free["experts"]["padded_share"] == 0 and fixed["experts"]["padded_share"] > 0.1


def test_energy_is_told_apart_by_cause_and_by_part():
    run = shapes()
    whole = sum(run["energy_parts_j"].values())
    assert sum(run["energy_causes_j"].values()) == pytest.approx(whole)
    assert sum(run["communication_parts_j"].values()) == pytest.approx(run["energy_causes_j"]["communication"])
    assert all(joules >= 0 for joules in run["energy_causes_j"].values())
    units, kinds = run["energy_by_unit_j"], run["energy_by_kind_j"]
    assert sum(units.values()) == pytest.approx(whole, rel=1e-12) and sum(kinds.values()) == pytest.approx(whole, rel=1e-12)
    assert kinds["ane"] == pytest.approx(units["ane0"] + units["ane1"]) and kinds["ane"] > 0
    assert {"rows", "switches", "weights", "activations"} <= {name for name, joules in run["communication_parts_j"].items() if joules > 0}
    parts = run["prefill_parts_j"]
    assert set(parts) == set(run["prefill_parts_ms"])
    assert sum(parts.values()) == pytest.approx(whole, rel=0.05)
    assert parts["experts"] > parts["router"] > 0
    # One launch for each expert reads the same weights, and changes graphs more often.
    alone = shapes(**{"engine.moe.groups": "off"})
    assert alone["communication_parts_j"]["switches"] > 2 * run["communication_parts_j"]["switches"]
