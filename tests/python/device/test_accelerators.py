"""Apple's devices: published rows come out of simulated requests, and what the device files state was published."""
import functools
import json

import pytest
from conftest import ROOT
from vitro.base import native as _native
from vitro.device import characterize as probing
from vitro.device import sensitivity
from vitro.errors import ConfigError, RunError

DEVICES = ROOT / "configs" / "devices"
_, ANSWERS = probing.load_figures(ROOT / "experiments" / "papers")
once = functools.cache(lambda: probing.characterize(DEVICES / "m2_ultra.yaml"))


@pytest.fixture
def rows(native):
    return {row["id"]: row for row in once()["rows"]}


@pytest.mark.parametrize("key", [
    "npumoe_graph_limit_m2ultra", "npumoe_npu_vs_cpu_matmul", "npumoe_group_serial_slowdown", "npumoe_table8_gpu_attention_ms",
    "npumoe_table8_npu_attention_ms", *(f"npumoe_table8_gpu_vs_npu_attention.{leaf}" for leaf in (
        "gpu.runtime_ms", "gpu.energy_mj", "gpu.power_w", "npu.runtime_ms", "npu.energy_mj", "npu.power_w", "gpu_over_npu.speed",
        "gpu_over_npu.energy", "gpu_over_npu.power")),
    *(f"npumoe_table5_serial.{leaf}" for leaf in ("1x128", "4x32", "4x64", "8x32", "8x64", "8x96", "8x128", "8x192", "8x256")),
    *(f"npumoe_table5_serial.{leaf}.energy" for leaf in ("1x128", "4x32", "4x64", "8x32", "8x64", "8x96", "8x192", "8x256")),
])
def test_m2_ultra_reproduces(rows, key):
    assert rows[key]["status"] == "ok", rows[key]


def test_a_table_of_pairs_has_a_row_for_each_number(rows):
    latency, energy = rows["npumoe_table5_serial.8x32"], rows["npumoe_table5_serial.8x32.energy"]
    assert (latency["expected"], latency["unit"], energy["expected"], energy["unit"]) == (0.26, "ms/token", 1.16, "mJ/token")


def test_nothing_that_the_models_claim_is_off(rows):
    assert not [row["id"] for row in rows.values() if row["status"] == "off"]


def test_what_contradicts_and_what_a_policy_decides_is_shown_and_says_why(rows):
    shown = [row for row in rows.values() if row["simulated"] is not None and row["status"] in ("contradictory", "not modelled")]
    assert len(shown) == 27 and all("read as" in row["why"] and ";" in row["why"] for row in shown)


@pytest.mark.parametrize("change", ["host", "stream", "switch"])
def test_energy_of_expert_groups_hangs_on_each_of_its_parts(native, rows, change):
    device = _native.call("load_device", str(DEVICES / "m2_ultra.yaml"))
    if change == "host":
        device["power"]["active_watts"]["performance"] = 0
    elif change == "stream":
        device["power"]["stalled_share"]["ane"] = 1
    else:
        device["ane"]["switch_activity"]["value"] = 0
    key = "npumoe_table5_serial.4x32.energy"
    args = probing.wanted(ANSWERS[key])[0][1]
    (answer,) = probing.run_probes([(json.dumps(sensitivity._numbers(device)), "expert_groups", args)]).values()
    assert rows[key]["status"] == "ok"
    assert abs(1e3 * answer["measures"]["joules_per_token"] / rows[key]["expected"] - 1) > 0.03


@pytest.mark.parametrize("leaf", ["1x32", "8x32", "8x64"])
def test_two_engines_side_by_side_come_out_where_nothing_but_them_decides(rows, leaf):
    assert rows[f"npumoe_table5_parallel.{leaf}"]["relative_error"] == pytest.approx(0, abs=0.03)


@pytest.mark.parametrize("device", ["m2_max", "m2_ultra"])
def test_the_file_states_what_was_published(native, device):
    answer = native("characterize", DEVICES / f"{device}.yaml", "--only", "ane", "--json")
    assert answer.code == 0, answer.err
    given = [row for row in answer.json["given"] if "parameter" in row]
    assert given and all(row["agrees"] for row in given)


EXPERTS = {"units": ["ane"], "experts": 16, "top_k": 2, "group": 8, "capacity": 32, "hidden": 4096, "ffn": 6400, "prompt": 1024,
           "host_per_token": "77 us", "mode": "serial"}
ATTENTION = {"unit": "gpu", "heads": 8, "kv_heads": 8, "dim": 64, "context": 16, "rows": 16, "runs": 1, "gap": "0 us"}
DENSE = {"variant": "float", "format": "f16", "m": 64, "k": 64}


@pytest.mark.parametrize("probe, args, part", [
    ("dense_products", {**DENSE, "units": ["ane0"], "n": []}, "n is empty|is empty"),
    ("dense_products", {**DENSE, "units": ["ane0"], "n": ["many"]}, "list of sizes"),
    ("dense_products", {**DENSE, "units": ["performance", "ane0"], "n": [64]}, "mixes"),
    ("dense_products", {**DENSE, "units": ["npu"], "n": [64]}, "performance, efficiency, ane, gpu"),
    ("expert_groups", {**EXPERTS, "group": 5}, "divide"),
    ("expert_groups", {**EXPERTS, "mode": "both"}, "serial"),
    ("expert_groups", {**EXPERTS, "host_per_token": 77}, "no unit"),
    ("attention_kernel", {**ATTENTION, "rows": 17}, "rows"),
])
def test_wrong_probe_arguments_are_one_message(native, probe, args, part):
    with pytest.raises(ConfigError, match=part):
        probing.run_probes([(str(DEVICES / "m2_ultra.yaml"), probe, args)])


@pytest.mark.parametrize("probe, args, part", [
    ("dense_products", {**DENSE, "format": "q4_0", "units": ["ane0"], "n": [64]}, "computes in f16 and matmul came with q4_0"),
    ("dense_products", {**DENSE, "format": "f32", "units": ["ane0"], "n": [64]}, "expected f16"),
    ("graph_limit", {"unit": "ane0", "m": 16, "most": "64 MiB"}, "still runs a graph of 64.00 MiB itself"),
])
def test_what_the_unit_refuses_is_one_message(native, probe, args, part):
    with pytest.raises(RunError, match=part):
        probing.run_probes([(str(DEVICES / "m2_ultra.yaml"), probe, args)])
